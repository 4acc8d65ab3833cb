#include "engine/import/faster_transformer_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "engine/files/file_paths.h"
#include "engine/files/mapped_file.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFiles = 1 << 17;
constexpr int kMaxPieces = 1024;
constexpr std::string_view kPrefixes[] = {"model.", "encoder.", "decoder.", "shared.",
                                          "lm_head."};  // except in the first T5 folders
constexpr std::string_view kSuffix = ".bin", kGpus = "-gpu";

std::optional<int> Number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool usual = error == std::errc() && value >= 0 && value < kMaxPieces && std::to_string(value) == text;
  return usual ? std::optional(value) : std::nullopt;
}

// The files of one tensor by number; -1 = without a number.
using Files = std::map<std::string, std::map<int, std::string>, std::less<>>;

Result<Files> ListFiles(const std::string& folder) {
  Files files;
  size_t count = 0;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool known = std::ranges::any_of(kPrefixes, [&](std::string_view prefix) {
      return name.starts_with(prefix) && name.size() > prefix.size() + kSuffix.size();
    });
    if (!known || !name.ends_with(kSuffix)) continue;
    if (++count > kMaxFiles) return Corruption(fmt::format("{}: more than {} files", folder, kMaxFiles));
    std::string tensor = name.substr(0, name.size() - kSuffix.size());
    const size_t dot = tensor.rfind('.');
    const auto number = dot == std::string::npos ? std::nullopt : Number(std::string_view(tensor).substr(dot + 1));
    if (number) tensor.resize(dot);
    files[tensor].emplace(number.value_or(-1), name);
  }
  if (error) return IoError(fmt::format("{}: {}", folder, error.message()));
  return files;
}

// Numbers must be consecutive from 0, or there must be one file without a number.
Status CheckNumbers(const std::string& folder, const std::string& tensor, const std::map<int, std::string>& files) {
  if (files.begin()->first == -1) {
    if (files.size() == 1) return Status::Ok();
    return Corruption(fmt::format("{}: tensor '{}' exists both whole and in parts", folder, tensor));
  }
  int next = 0;
  for (const auto& [number, name] : files) {
    if (number != next++) return Corruption(fmt::format("{}/{}.{}.bin is missing", folder, tensor, next - 1));
  }
  return Status::Ok();
}

}  // namespace

std::optional<std::string> FasterTransformerFolder::Find(const std::string& folder) {
  std::error_code ignored;
  if (fs::exists(folder + "/config.ini", ignored)) return folder;
  std::optional<std::string> found;
  int fewest = kMaxPieces;
  for (fs::directory_iterator entry(folder, ignored), end; !ignored && entry != end; entry.increment(ignored)) {
    const std::string name = entry->path().filename().string();
    if (!name.ends_with(kGpus) || !fs::exists(entry->path() / "config.ini", ignored)) continue;
    const auto gpus = Number(std::string_view(name).substr(0, name.size() - kGpus.size()));
    if (!gpus || *gpus >= fewest) continue;
    fewest = *gpus;
    found = entry->path().string();
  }
  return found;
}

Result<FasterTransformerFolder> FasterTransformerFolder::Open(const std::string& folder) {
  const auto found = Find(folder);
  if (!found) return NotFound(folder + ": no config.ini");
  FasterTransformerFolder out;
  out.path_ = *found;
  RETURN_IF_ERROR(CheckInside(folder, out.path_ + "/config.ini"));
  ASSIGN_OR_RETURN(out.config_, IniFile::ReadFile(out.path_ + "/config.ini"));
  ASSIGN_OR_RETURN(const Files files, ListFiles(out.path_));
  for (const auto& [tensor, numbered] : files) {
    RETURN_IF_ERROR(CheckNumbers(out.path_, tensor, numbered));
    Pieces& pieces = out.tensors_[tensor];
    pieces.numbered = numbered.begin()->first == 0;
    for (const auto& [number, name] : numbered) {
      const std::string path = out.path_ + "/" + name;
      RETURN_IF_ERROR(CheckInside(folder, path));
      ASSIGN_OR_RETURN(auto file, MappedFile::Open(path));
      pieces.bytes.push_back(file->bytes());
      out.files_.push_back(std::move(file));
    }
  }
  return out;
}

}  // namespace ringside
