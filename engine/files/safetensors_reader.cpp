#include "engine/files/safetensors_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "engine/files/flat_json.h"
#include "engine/files/mapped_file.h"

namespace ringside {
namespace {

constexpr size_t kMaxShards = 4096;
constexpr size_t kMaxTensorDimensions = 8;

struct Element {
  std::string_view name;
  int64_t bytes;
  std::optional<DType> dtype;  // nullopt: unsupported
};
constexpr Element kElements[] = {{"F32", 4, DType::kF32}, {"F16", 2, DType::kF16}, {"BF16", 2, DType::kBF16},
                                 {"F64", 8, {}},          {"I64", 8, {}},          {"U64", 8, {}},
                                 {"I32", 4, {}},          {"U32", 4, {}},          {"I16", 2, {}},
                                 {"U16", 2, {}},          {"I8", 1, {}},           {"U8", 1, {}},
                                 {"BOOL", 1, {}},         {"F8_E4M3", 1, {}},      {"F8_E5M2", 1, {}}};

struct Entry {
  FileTensor tensor;
  const Element* element = nullptr;
  int64_t begin = 0, end = 0;  // in the data section
};

Result<Entry> ReadEntry(const FlatJson& header, const std::string& path, const std::string& name) {
  const auto damaged = [&](const std::string& what) {
    return Corruption(fmt::format("{}: tensor '{}' {}", path, name, what));
  };
  Entry entry;
  const auto type = header.String(name + ".dtype");
  if (!type) return damaged("has no dtype");
  entry.element =
      std::find_if(std::begin(kElements), std::end(kElements), [&](const auto& e) { return e.name == *type; });
  if (entry.element == std::end(kElements)) return damaged(fmt::format("has unknown dtype '{}'", *type));
  const auto shape = header.Ints(name + ".shape");
  if (!shape || shape->size() > kMaxTensorDimensions) return damaged("has no valid shape");
  int64_t elements = 1;
  for (const int64_t size : *shape) {
    if (size < 1 || size > (int64_t{1} << 48) / elements) return damaged(fmt::format("has a dimension of {}", size));
    elements *= size;
  }
  const auto offsets = header.Ints(name + ".data_offsets");
  if (!offsets || offsets->size() != 2) return damaged("has no valid data_offsets");
  entry.begin = (*offsets)[0];
  entry.end = (*offsets)[1];
  if (entry.begin < 0 || entry.end < entry.begin || entry.end - entry.begin != elements * entry.element->bytes) {
    return damaged(fmt::format("has the data_offsets [{}, {}), which do not fit its shape", entry.begin, entry.end));
  }
  if (std::get<FlatJson::Object>(*header.Find(name)).members != 3) return damaged("has unknown fields");
  entry.tensor.name = name;
  entry.tensor.shape = *shape;
  const int64_t cols = shape->empty() ? 1 : shape->back();
  entry.tensor.data = {entry.element->dtype.value_or(DType::kF32), elements / cols, cols, {}};
  return entry;
}

// The tensors of a header in data order; they must cover the whole data section.
Result<std::vector<Entry>> ReadEntries(const FlatJson& header, const std::string& path, int64_t data_bytes) {
  std::vector<Entry> entries;
  size_t understood = 0;  // number of recognised header values
  for (const auto& [name, value] : header.values()) {
    if (name == "__metadata__" || name.starts_with("__metadata__."))
      ++understood;  // free text
    else if (std::holds_alternative<FlatJson::Object>(value)) {
      ASSIGN_OR_RETURN(Entry entry, ReadEntry(header, path, name));
      understood += 6 + entry.tensor.shape.size();  // itself, dtype, shape, data_offsets and its two numbers
      entries.push_back(std::move(entry));
    }
  }
  if (understood != header.values().size()) return Corruption(path + ": the header holds more than tensors");
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.begin < b.begin; });
  int64_t end = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    const Entry& entry = entries[i];
    if (entry.end > data_bytes) {
      return Corruption(fmt::format("{}: tensor '{}' reaches past the end of the file", path, entry.tensor.name));
    }
    if (entry.begin < end) {
      return Corruption(
          fmt::format("{}: tensors '{}' and '{}' overlap", path, entries[i - 1].tensor.name, entry.tensor.name));
    }
    if (entry.begin > end) {
      return Corruption(fmt::format("{}: {} bytes before tensor '{}' belong to no tensor", path, entry.begin - end,
                                    entry.tensor.name));
    }
    end = entry.end;
  }
  if (end != data_bytes) return Corruption(fmt::format("{}: {} bytes after the last tensor", path, data_bytes - end));
  return entries;
}

// The shard of each tensor, from the index file. Shards are plain names in the same folder.
Result<std::map<std::string, std::string>> ReadIndex(const std::string& path) {
  ASSIGN_OR_RETURN(const FlatJson index, FlatJson::ReadFile(path));
  constexpr std::string_view kPrefix = "weight_map.";
  std::map<std::string, std::string> shard_of;
  for (const auto& [name, value] : index.values()) {
    if (!name.starts_with(kPrefix)) continue;
    const std::string tensor = name.substr(kPrefix.size());
    const auto* shard = std::get_if<std::string>(&value);
    if (shard == nullptr) return Corruption(fmt::format("{}: the shard of '{}' is not a string", path, tensor));
    if (!shard->ends_with(".safetensors") || shard->find_first_of(std::string_view("/\\\0", 3)) != std::string::npos) {
      return Corruption(fmt::format("{}: the shard of '{}' is not a file of this folder", path, tensor));
    }
    shard_of.emplace(tensor, *shard);
  }
  if (shard_of.empty()) return Corruption(fmt::format("{}: names no tensor", path));
  return shard_of;
}

}  // namespace

Result<SafeTensors> SafeTensors::OpenFile(const std::string& path) {
  SafeTensors out;
  ASSIGN_OR_RETURN(auto file, MappedFile::Open(path));
  const auto bytes = file->bytes();
  uint64_t header_bytes = 0;
  if (bytes.size() < sizeof(header_bytes)) return Corruption(path + ": ends inside the header");
  std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
  if (header_bytes > bytes.size() - sizeof(header_bytes)) {
    return Corruption(fmt::format("{}: a header of {} bytes in a file of {}", path, header_bytes, bytes.size()));
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + sizeof(header_bytes), header_bytes);
  ASSIGN_OR_RETURN(const FlatJson header, FlatJson::Parse(text, path));
  const auto data = bytes.subspan(sizeof(header_bytes) + header_bytes);
  ASSIGN_OR_RETURN(auto entries, ReadEntries(header, path, static_cast<int64_t>(data.size())));
  for (Entry& entry : entries) {
    FileTensor& tensor = entry.tensor;
    tensor.data.bytes = data.subspan(static_cast<size_t>(entry.begin), static_cast<size_t>(entry.end - entry.begin));
    if (entry.element->dtype)
      out.tensors_.push_back(std::move(tensor));
    else
      out.others_.push_back({tensor.name, std::string(entry.element->name), tensor.shape, tensor.data.bytes});
  }
  out.files_.push_back(std::move(file));
  return out;
}

Result<SafeTensors> SafeTensors::OpenFolder(const std::string& folder) {
  const std::string single = folder + "/model.safetensors";
  const std::string index_path = folder + "/model.safetensors.index.json";
  std::error_code ignored;
  if (std::filesystem::exists(single, ignored)) return OpenFile(single);
  if (!std::filesystem::exists(index_path, ignored)) {
    return NotFound(fmt::format("{}: neither model.safetensors nor model.safetensors.index.json", folder));
  }
  ASSIGN_OR_RETURN(auto shard_of, ReadIndex(index_path));
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : shard_of) shards.insert(shard);
  if (shards.size() > kMaxShards) return Corruption(fmt::format("{}: {} shards", index_path, shards.size()));

  SafeTensors out;
  for (const std::string& shard : shards) {
    ASSIGN_OR_RETURN(SafeTensors part, OpenFile(folder + "/" + shard));
    const auto claim = [&](const std::string& name) {
      const auto found = shard_of.find(name);
      if (found == shard_of.end() || found->second != shard) {
        return Corruption(
            fmt::format("{}: tensor '{}' of {} is not in the shard that the index names", folder, name, shard));
      }
      shard_of.erase(found);
      return Status::Ok();
    };
    for (const auto& tensor : part.tensors_) RETURN_IF_ERROR(claim(tensor.name));
    for (const auto& tensor : part.others_) RETURN_IF_ERROR(claim(tensor.name));
    std::move(part.tensors_.begin(), part.tensors_.end(), std::back_inserter(out.tensors_));
    std::move(part.others_.begin(), part.others_.end(), std::back_inserter(out.others_));
    out.files_.push_back(std::move(part.files_.front()));
  }
  if (!shard_of.empty()) {
    return Corruption(
        fmt::format("{}: tensor '{}' is missing from {}", folder, shard_of.begin()->first, shard_of.begin()->second));
  }
  return out;
}

}  // namespace ringside
