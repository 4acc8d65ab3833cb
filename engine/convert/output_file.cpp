#include "engine/convert/output_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace ringside {

Status OutputFile::Failed() const { return IoError(fmt::format("{}: {}", path_, std::strerror(errno))); }

Result<OutputFile> OutputFile::Create(const std::string& path) {
  OutputFile out;
  out.path_ = path;
  out.file_.reset(std::fopen(path.c_str(), "wbxe"));
  if (out.file_ == nullptr) return out.Failed();
  return out;
}

Status OutputFile::Write(std::span<const std::byte> bytes) {
  written_ += bytes.size();
  return std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) == bytes.size() ? Status::Ok() : Failed();
}

Status OutputFile::Align(size_t multiple) {
  return Write(std::string((multiple - written_ % multiple) % multiple, '\0'));
}

Status OutputFile::Close() { return std::fclose(file_.release()) == 0 ? Status::Ok() : Failed(); }

Status WriteFile(const std::string& path, std::string_view text) {
  ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path));
  RETURN_IF_ERROR(file.Write(text));
  return file.Close();
}

}  // namespace ringside
