# Writes the FILES, named by their paths below FOLDER, into a C++ source, OUTPUT, that defines PageFiles() of
# page_files.h.
set(arrays "")
set(table "")
set(index 0)
foreach(file IN LISTS FILES)
  file(RELATIVE_PATH name ${FOLDER} ${file})
  file(READ ${file} bytes HEX)
  file(SHA256 ${file} hash)
  string(LENGTH "${bytes}" digits)
  math(EXPR size "${digits} / 2")
  string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${bytes}")
  string(APPEND arrays "constexpr char kFile${index}[] = {${bytes} 0};\n")
  string(APPEND table "    {\"${name}\", {kFile${index}, ${size}}, \"${hash}\"},\n")
  math(EXPR index "${index} + 1")
endforeach()
file(WRITE ${OUTPUT} "#include \"ws/page/page_files.h\"\n
namespace ringside {
namespace {
${arrays}
constexpr PageFile kFiles[] = {
${table}};
}  // namespace
std::span<const PageFile> PageFiles() { return kFiles; }
}  // namespace ringside\n")
