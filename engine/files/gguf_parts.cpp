// A GGUF file, or all parts of a split one: NAME-00001-of-00003.gguf and its siblings, as written by llama.cpp's
// gguf-split. The first part has the metadata; each part has its own tensors.
#include <fmt/format.h>

#include <iterator>
#include <set>

#include "engine/files/gguf_reader.h"

namespace ringside {
namespace {

constexpr int64_t kMaxParts = 4096;

struct Split {
  int64_t number = 0, count = 1, tensors = 0;  // `number` from 0
  bool operator==(const Split&) const = default;
};

Split SplitOf(const GgufFile& file) {
  return {file.Int("split.no").value_or(0), file.Int("split.count").value_or(1),
          file.Int("split.tensors.count").value_or(-1)};
}

std::string Suffix(int64_t number, int64_t count) { return fmt::format("-{:05}-of-{:05}.gguf", number + 1, count); }

Status Foreign(const std::string& path, const std::string& what) {
  return Corruption(fmt::format("{}: this part belongs to another model: {}", path, what));
}

Status CheckPart(const std::string& path, const GgufFile& part, const Split& want) {
  const Split split = SplitOf(part);
  if (split.count != want.count) {
    return Foreign(path, fmt::format("its 'split.count' is {}, not {}", split.count, want.count));
  }
  if (split.tensors != want.tensors) {
    return Foreign(path, fmt::format("its 'split.tensors.count' is {}, not {}", split.tensors, want.tensors));
  }
  if (split.number != want.number) {
    return Corruption(fmt::format("{}: the file holds part {} of {}; part {} is missing", path, split.number + 1,
                                  want.count, want.number + 1));
  }
  return Status::Ok();
}

}  // namespace

Status GgufFile::Join(GgufFile part, const std::string& path) {
  for (const auto& [key, value] : part.values_) {
    const bool own = key.starts_with("split.") || key == "general.alignment";
    const auto known = values_.find(key);
    if (!own && known != values_.end() && known->second != value) {
      return Foreign(path, fmt::format("its '{}' differs from the first part's", key));
    }
  }
  std::set<std::string_view> names;
  for (const FileTensor& tensor : tensors_) names.insert(tensor.name);
  for (const FileTensor& tensor : part.tensors_) {
    if (!names.contains(tensor.name)) continue;
    return Corruption(fmt::format("{}: tensor '{}' also occurs in an earlier part", path, tensor.name));
  }
  std::move(part.tensors_.begin(), part.tensors_.end(), std::back_inserter(tensors_));
  std::move(part.files_.begin(), part.files_.end(), std::back_inserter(files_));
  return Status::Ok();
}

Result<GgufFile> GgufFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(GgufFile named, OpenOne(path));
  Split split = SplitOf(named);
  if (split.count <= 1) return named;
  if (split.count > kMaxParts || split.number < 0 || split.number >= split.count) {
    return Corruption(fmt::format("{}: claims to be part {} of {}", path, split.number + 1, split.count));
  }
  const std::string suffix = Suffix(split.number, split.count);
  if (!path.ends_with(suffix)) {
    return InvalidArgument(
        fmt::format("{}: part {} of {} of a split model; its name must end in '{}', next to the other parts", path,
                    split.number + 1, split.count, suffix));
  }
  const std::string stem = path.substr(0, path.size() - suffix.size());
  const int64_t given = split.number;
  GgufFile all;
  for (split.number = 0; split.number < split.count; ++split.number) {
    const std::string part_path = stem + Suffix(split.number, split.count);
    Result<GgufFile> part = split.number == given ? std::move(named) : OpenOne(part_path);
    if (part.status().code() == StatusCode::kNotFound) {
      return NotFound(fmt::format("{}: part {} of {} is missing", part_path, split.number + 1, split.count));
    }
    RETURN_IF_ERROR(part.status());
    RETURN_IF_ERROR(CheckPart(part_path, *part, split));
    if (split.number == 0) {
      all = std::move(*part);
    } else {
      RETURN_IF_ERROR(all.Join(std::move(*part), part_path));
    }
  }
  if (std::ssize(all.tensors_) != split.tensors) {
    return Corruption(fmt::format("{}: the {} parts hold {} tensors; 'split.tensors.count' is {}", path, split.count,
                                  all.tensors_.size(), split.tensors));
  }
  return all;
}

}  // namespace ringside
