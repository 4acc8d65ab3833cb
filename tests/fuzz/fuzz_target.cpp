#include "tests/fuzz/fuzz_target.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/golden_folder.h"

namespace ringside {

std::vector<std::string_view> SplitParts(const uint8_t* data, size_t size, size_t count) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::vector<std::string_view> parts;
  while (parts.size() + 1 < count) {
    const size_t border = std::min(rest.find(kBorder), rest.size());
    parts.push_back(rest.substr(0, border));
    rest.remove_prefix(std::min(border + kBorder.size(), rest.size()));
  }
  parts.push_back(rest);
  return parts;
}

std::vector<std::string_view> SplitParts(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  size_t count = 1;
  for (size_t at = input.find(kBorder); at != std::string_view::npos; at = input.find(kBorder, at + kBorder.size())) {
    ++count;
  }
  return SplitParts(data, size, count);
}

std::string JoinParts(const std::vector<std::string>& parts) {
  std::string joined;
  for (size_t i = 0; i < parts.size(); ++i) joined.append(i == 0 ? "" : kBorder).append(parts[i]);
  return joined;
}

void Require(bool holds, std::string_view what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

InputFolder::InputFolder()
    : path_(std::filesystem::temp_directory_path() / ("ringside_fuzz_" + std::to_string(getpid()))) {
  std::filesystem::create_directories(path_);
}

InputFolder::~InputFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string InputFolder::Write(std::string_view name, std::string_view bytes) const {
  const std::string file = path_ + '/' + std::string(name);
  std::filesystem::remove(file);  // truncating a file and closing it waits for the disk
  std::ofstream out(file, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  Require(out.good(), "the input can be written to " + file);
  return file;
}

std::string ReadGolden(const std::string& name) {
  std::ifstream in(GoldenFolder(name), std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  Require(!bytes.empty(), "there is a file tests/golden/" + name);
  return bytes;
}

std::vector<std::string> GoldenFamiliesWith(const std::string& file) {
  std::vector<std::string> families;
  for (const auto& entry : std::filesystem::directory_iterator(GoldenFolder("families"))) {
    if (std::filesystem::exists(entry.path() / file))
      families.push_back("families/" + entry.path().filename().string());
  }
  std::ranges::sort(families);
  return families;
}

}  // namespace ringside
