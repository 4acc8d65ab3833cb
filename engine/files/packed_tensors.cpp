#include "engine/files/packed_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <string_view>

#include "engine/files/safetensors_reader.h"
#include "kernels/formats/file_formats.h"
#include "kernels/formats/row_quantization.h"

namespace ringside {
namespace {

using Kind = PackedFormat::Kind;

constexpr int64_t kBlock = 32;
constexpr std::string_view kE4M3Name = "F8_E4M3";  // in safetensors
constexpr std::string_view kOtherE4M3Scales[] = {".input_scale", ".input_scale_ub", ".output_scale",
                                                 ".k_scale",     ".v_scale",        ".kv_scale"};
constexpr int kAwqPlaces[] = {0, 4, 1, 5, 2, 6, 3, 7};  // place of output i among the eight of a word

uint32_t WordAt(std::span<const std::byte> bytes, int64_t i) {
  uint32_t word;
  std::memcpy(&word, bytes.data() + static_cast<size_t>(i) * sizeof(word), sizeof(word));
  return word;
}

/// All tensors of a file by name: parts are taken out; the remaining ones are whole tensors.
class Parts {
 public:
  explicit Parts(const SafeTensors& file) {
    for (const FileTensor& tensor : file.tensors()) floats_.emplace(tensor.name, &tensor);
    for (const OtherTensor& tensor : file.others()) others_.emplace(tensor.name, &tensor);
  }

  const std::map<std::string_view, const OtherTensor*>& others() const { return others_; }
  bool Has(std::string_view name) const { return others_.contains(name); }

  /// Takes an integer part.
  Status Take(const std::string& name, std::string_view type, const std::vector<int64_t>& shape,
              std::span<const std::byte>* bytes) {
    const auto found = others_.find(name);
    if (found == others_.end()) return Corruption(fmt::format("tensor '{}' is missing", name));
    RETURN_IF_ERROR(Check(name, found->second->type, type, found->second->shape, shape));
    *bytes = found->second->bytes;
    others_.erase(found);
    return Status::Ok();
  }
  Status TakeScales(const std::string& name, const std::vector<int64_t>& shape, std::span<const std::byte>* bytes) {
    const auto found = floats_.find(name);
    if (found == floats_.end()) return Corruption(fmt::format("tensor '{}' is missing", name));
    const FileTensor& tensor = *found->second;
    RETURN_IF_ERROR(Check(name, Traits(tensor.data.dtype).name, Traits(DType::kF16).name, tensor.shape, shape));
    *bytes = tensor.data.bytes;
    floats_.erase(found);
    return Status::Ok();
  }
  /// Takes a float part; null if there is none.
  const FileTensor* RemoveFloats(const std::string& name) {
    const auto found = floats_.find(name);
    if (found == floats_.end()) return nullptr;
    const FileTensor* tensor = found->second;
    floats_.erase(found);
    return tensor;
  }
  /// Drops unused parts.
  void RemoveBySuffix(std::span<const std::string_view> suffixes) {
    std::erase_if(floats_, [&](const auto& item) {
      return std::ranges::any_of(suffixes, [&](std::string_view suffix) { return item.first.ends_with(suffix); });
    });
  }

  JoinedTensors Rest(std::vector<FileTensor> joined) const {
    JoinedTensors out{.tensors = std::move(joined)};
    for (const auto& [name, tensor] : floats_) out.tensors.push_back(*tensor);
    for (const auto& [name, tensor] : others_) out.unsupported.emplace_back(name, tensor->type);
    return out;
  }

 private:
  static Status Check(const std::string& name, std::string_view type, std::string_view wanted_type,
                      const std::vector<int64_t>& shape, const std::vector<int64_t>& wanted) {
    if (type != wanted_type) {
      return InvalidArgument(fmt::format("tensor '{}' is stored as {}, only {} is supported", name, type, wanted_type));
    }
    if (shape == wanted) return Status::Ok();
    return Corruption(fmt::format("tensor '{}' has shape [{}], expected [{}]", name, fmt::join(shape, ", "),
                                  fmt::join(wanted, ", ")));
  }

  std::map<std::string_view, const FileTensor*> floats_;
  std::map<std::string_view, const OtherTensor*> others_;
};

/// Sorts the inputs by group; groups must consist of whole blocks.
Status SortByGroup(const std::string& name, std::span<const std::byte> g_idx, int64_t groups, PackedParts* parts) {
  const auto inputs = static_cast<int64_t>(g_idx.size() / sizeof(int32_t));
  std::vector<std::vector<int32_t>> of_group(static_cast<size_t>(groups));
  for (int64_t i = 0; i < inputs; ++i) {
    const uint32_t group = WordAt(g_idx, i);
    if (group >= of_group.size()) {
      return Corruption(fmt::format("tensor '{}' has a group {} of {}", name, static_cast<int32_t>(group), groups));
    }
    of_group[group].push_back(static_cast<int32_t>(i));
  }
  for (size_t group = 0; group < of_group.size(); ++group) {
    if (of_group[group].size() % kBlock != 0) {
      return InvalidArgument(fmt::format("tensor '{}' has {} inputs in group {}, not a multiple of {}", name,
                                         of_group[group].size(), group, kBlock));
    }
    parts->order.insert(parts->order.end(), of_group[group].begin(), of_group[group].end());
    parts->block_groups.insert(parts->block_groups.end(), of_group[group].size() / kBlock, static_cast<int32_t>(group));
  }
  if (std::ranges::is_sorted(parts->order)) parts->order.clear();
  return Status::Ok();
}

/// The matrix of module `name`.
Result<FileTensor> JoinModule(const std::string& name, const PackedFormat& format, Parts* all) {
  const std::string integers = name + ".qweight";
  const std::vector<int64_t> shape = all->others().at(integers)->shape;
  if (shape.size() != 2) return Corruption(fmt::format("tensor '{}' has {} dimensions", integers, shape.size()));
  const bool awq = format.kind == Kind::kAwq;
  const int64_t rows = awq ? 8 * shape[1] : shape[1], cols = awq ? shape[0] : 8 * shape[0];
  const int64_t group = format.group == 0 ? cols : format.group, groups = (cols + group - 1) / group;
  if (cols % kBlock != 0 || rows % 8 != 0) {
    return InvalidArgument(fmt::format("tensor '{}' has {} inputs and {} outputs, not multiples of {} and 8", integers,
                                       cols, rows, kBlock));
  }
  PackedParts parts{.format = format};
  RETURN_IF_ERROR(all->Take(integers, "I32", shape, &parts.integers));
  RETURN_IF_ERROR(all->TakeScales(name + ".scales", {groups, rows}, &parts.scales));
  if (format.has_zero_points || all->Has(name + ".qzeros")) {
    RETURN_IF_ERROR(all->Take(name + ".qzeros", "I32", {groups, rows / 8}, &parts.zeros));
  }
  if (const std::string of = name + ".g_idx"; !awq && all->Has(of)) {
    std::span<const std::byte> g_idx;
    RETURN_IF_ERROR(all->Take(of, "I32", {cols}, &g_idx));
    RETURN_IF_ERROR(SortByGroup(of, g_idx, groups, &parts));
  } else {
    for (int64_t i = 0; i < cols; i += kBlock) parts.block_groups.push_back(static_cast<int32_t>(i / group));
  }
  FileTensor tensor{.name = name + ".weight", .shape = {rows, cols}, .data = {DType::kQ4_Z, rows, cols, {}}};
  tensor.packed = std::make_shared<const PackedParts>(std::move(parts));
  tensor.data.order = tensor.packed->order;
  return tensor;
}

Result<FileTensor> JoinExperts(const std::string& name, Parts* all) {
  const std::string integers = name + "_blocks";
  const std::vector<int64_t> shape = all->others().at(integers)->shape;
  if (shape.size() != 4 || shape[3] != kBlock / 2) {
    return Corruption(fmt::format("tensor '{}' has shape [{}], not [experts, outputs, blocks, {}]", integers,
                                  fmt::join(shape, ", "), kBlock / 2));
  }
  PackedParts parts;
  RETURN_IF_ERROR(all->Take(integers, "U8", shape, &parts.integers));
  RETURN_IF_ERROR(all->Take(name + "_scales", "U8", {shape[0], shape[1], shape[2]}, &parts.scales));
  const int64_t cols = shape[2] * kBlock;
  FileTensor tensor{
      .name = name, .shape = {shape[0], shape[1], cols}, .data = {DType::kMXFP4, shape[0] * shape[1], cols, {}}};
  tensor.packed = std::make_shared<const PackedParts>(std::move(parts));
  return tensor;
}

/// The matrix of module `name`.
Result<FileTensor> JoinE4M3(const std::string& name, Parts* all) {
  const std::string weight = name + ".weight", scale = name + ".weight_scale";
  const std::vector<int64_t> shape = all->others().at(weight)->shape;
  if (shape.size() != 2) return Corruption(fmt::format("tensor '{}' has {} dimensions", weight, shape.size()));
  const int64_t rows = shape[0], cols = shape[1];
  if (cols % kBlock != 0) {
    return InvalidArgument(fmt::format("tensor '{}' has {} inputs, not a multiple of {}", weight, cols, kBlock));
  }
  PackedParts parts{.format = {.kind = Kind::kE4M3}};
  RETURN_IF_ERROR(all->Take(weight, kE4M3Name, shape, &parts.integers));
  const FileTensor* scales = all->RemoveFloats(scale);
  if (scales == nullptr) return Corruption(fmt::format("tensor '{}' is missing", scale));
  const HostTensor& data = scales->data;
  const int64_t count = data.rows * data.cols;
  if (count != 1 && (count != rows || scales->shape.front() != rows)) {
    return Corruption(fmt::format("tensor '{}' has shape [{}], expected [{}, 1] or [1]", scale,
                                  fmt::join(scales->shape, ", "), rows));
  }
  const auto* bytes = reinterpret_cast<const uint8_t*>(data.bytes.data());
  for (int64_t row = 0; row < rows; ++row) {
    const float value = FloatValue(data.dtype, bytes + StorageBytes(data.dtype, count == 1 ? 0 : row));
    if (!(value >= 0 && value <= std::numeric_limits<float>::max() / kLargestE4M3)) {
      return Corruption(fmt::format("tensor '{}' has a scale of {}", scale, value));
    }
    parts.row_scales.push_back(value);
  }
  FileTensor tensor{.name = weight, .shape = shape, .data = {DType::kScaledE4M3, rows, cols, {}}};
  tensor.packed = std::make_shared<const PackedParts>(std::move(parts));
  return tensor;
}

/// Packs a block's integers two to a byte, i and i + 16.
template <class At>
void PutNibbles(const At& at, std::byte* to) {
  for (int i = 0; i < 16; ++i) to[i] = static_cast<std::byte>(at(i) | at(i + 16) << 4);
}

void MakeMxfp4Blocks(const PackedParts& parts, std::byte* to) {
  for (size_t b = 0; b < parts.scales.size(); ++b, to += 17) {
    const std::byte* from = parts.integers.data() + 16 * b;
    to[0] = parts.scales[b];
    PutNibbles([&](int i) { return std::to_integer<int>(from[i / 2]) >> (4 * (i % 2)) & 15; }, to + 1);
  }
}

void MakeE4M3Blocks(const PackedParts& parts, int64_t cols, std::byte* to) {
  const std::byte* from = parts.integers.data();
  for (const float scale : parts.row_scales) {
    for (int64_t b = 0; b < cols / kBlock; ++b, from += kBlock, to += sizeof(scale) + kBlock) {
      std::memcpy(to, &scale, sizeof(scale));
      std::memcpy(to + sizeof(scale), from, kBlock);
    }
  }
}

/// Block by block, because the outputs of an input are adjacent in the file.
template <class IntegerAt, class ZeroAt>
void MakeZeroPointBlocks(const PackedParts& parts, int64_t rows, int64_t cols, const IntegerAt& integer_at,
                         const ZeroAt& zero_at, std::byte* blocks) {
  const int64_t row_bytes = StorageBytes(DType::kQ4_Z, cols), block_bytes = Traits(DType::kQ4_Z).block_bytes;
  const auto input = [&](int64_t c) { return parts.order.empty() ? c : parts.order[static_cast<size_t>(c)]; };
  for (int64_t b = 0; b < cols / kBlock; ++b) {
    const int64_t group = parts.block_groups[static_cast<size_t>(b)];
    for (int64_t row = 0; row < rows; ++row) {
      std::byte* to = blocks + row * row_bytes + b * block_bytes;
      std::memcpy(to, parts.scales.data() + 2 * (group * rows + row), 2);
      to[2] = static_cast<std::byte>(parts.zeros.empty() ? 8 : zero_at(group, row));
      PutNibbles([&](int i) { return integer_at(input(b * kBlock + i), row); }, to + 3);
    }
  }
}

}  // namespace

Result<JoinedTensors> JoinPacked(const SafeTensors& file, const std::optional<PackedFormat>& format) {
  Parts all(file);
  std::vector<FileTensor> joined;
  if (!format) return all.Rest({});
  const bool e4m3 = format->kind == Kind::kE4M3;
  const std::string_view suffix = format->kind == Kind::kMxfp4 ? "_blocks" : e4m3 ? ".weight" : ".qweight";
  for (const OtherTensor& tensor : file.others()) {
    if (!tensor.name.ends_with(suffix) || (e4m3 && tensor.type != kE4M3Name)) continue;
    const std::string name = tensor.name.substr(0, tensor.name.size() - suffix.size());
    if (format->kind == Kind::kMxfp4) {
      ASSIGN_OR_RETURN(joined.emplace_back(), JoinExperts(name, &all));
    } else if (e4m3) {
      ASSIGN_OR_RETURN(joined.emplace_back(), JoinE4M3(name, &all));
    } else {
      ASSIGN_OR_RETURN(joined.emplace_back(), JoinModule(name, *format, &all));
    }
  }
  if (e4m3) all.RemoveBySuffix(kOtherE4M3Scales);
  return all.Rest(std::move(joined));
}

void MakeBlocks(const FileTensor& tensor, std::vector<std::byte>* blocks) {
  const PackedParts& parts = *tensor.packed;
  const int64_t rows = tensor.data.rows, cols = tensor.data.cols;
  blocks->resize(static_cast<size_t>(StorageBytes(tensor.data.dtype, rows * cols)));
  const auto nibble = [](uint32_t word, int64_t place) { return static_cast<int>(word >> (4 * place) & 15); };
  switch (parts.format.kind) {
    case Kind::kMxfp4:
      return MakeMxfp4Blocks(parts, blocks->data());
    case Kind::kE4M3:
      return MakeE4M3Blocks(parts, cols, blocks->data());
    case Kind::kAwq: {
      const auto at = [&](std::span<const std::byte> words, int64_t i, int64_t row) {
        return nibble(WordAt(words, i * (rows / 8) + row / 8), kAwqPlaces[row % 8]);
      };
      return MakeZeroPointBlocks(
          parts, rows, cols, [&](int64_t input, int64_t row) { return at(parts.integers, input, row); },
          [&](int64_t group, int64_t row) { return at(parts.zeros, group, row); }, blocks->data());
    }
    case Kind::kGptq:
      return MakeZeroPointBlocks(
          parts, rows, cols,
          [&](int64_t input, int64_t row) { return nibble(WordAt(parts.integers, input / 8 * rows + row), input % 8); },
          [&](int64_t group, int64_t row) {
            const int stored = nibble(WordAt(parts.zeros, group * (rows / 8) + row / 8), row % 8);
            return (stored + parts.format.zero_offset) & 15;
          },
          blocks->data());
  }
}

}  // namespace ringside
