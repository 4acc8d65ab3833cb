#include "engine/files/packed_joins.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/formats/file_formats.h"
#include "kernels/formats/row_quantization.h"

namespace ringside {
namespace {

constexpr int64_t kNvfp4Block = 64, kNvfp4Group = 16;
constexpr float kLargestE2M1 = 6;

int64_t Blocks(int64_t count, int64_t per_scale) { return per_scale == 0 ? 1 : (count + per_scale - 1) / per_scale; }

std::vector<int64_t> WithoutTrailingOnes(std::vector<int64_t> shape) {
  while (!shape.empty() && shape.back() == 1) shape.pop_back();
  return shape;
}

Status ReadScale(const std::string& name, const HostTensor& data, int64_t i, float largest, float* value) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(data.bytes.data());
  *value = FloatValue(data.dtype, bytes + StorageBytes(data.dtype, i));
  if (*value >= 0 && *value <= std::numeric_limits<float>::max() / largest) return Status::Ok();
  return Corruption(fmt::format("tensor '{}' has a scale of {}", name, *value));
}

}  // namespace

FileTensor PackedTensor(std::string name, std::vector<int64_t> shape, DType dtype, PackedParts parts) {
  const int64_t cols = shape.back();
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  FileTensor tensor{.name = std::move(name), .shape = std::move(shape), .data = {dtype, rows, cols, {}}};
  tensor.packed = std::make_shared<const PackedParts>(std::move(parts));
  tensor.data.order = tensor.packed->order;
  return tensor;
}

Status CheckInputs(const std::string& name, int64_t inputs, int64_t unit) {
  if (inputs % unit == 0) return Status::Ok();
  return InvalidArgument(fmt::format("tensor '{}' has {} inputs, not a multiple of {}", name, inputs, unit));
}

Status SortByGroup(const std::string& name, std::span<const std::byte> g_idx, int64_t groups, PackedParts* parts) {
  std::vector<int32_t> group_of(g_idx.size() / sizeof(int32_t));
  std::memcpy(group_of.data(), g_idx.data(), group_of.size() * sizeof(int32_t));
  std::vector<std::vector<int32_t>> of_group(static_cast<size_t>(groups));
  for (size_t i = 0; i < group_of.size(); ++i) {
    if (group_of[i] < 0 || group_of[i] >= groups) {
      return Corruption(fmt::format("tensor '{}' has a group {} of {}", name, group_of[i], groups));
    }
    of_group[static_cast<size_t>(group_of[i])].push_back(static_cast<int32_t>(i));
  }
  for (size_t group = 0; group < of_group.size(); ++group) {
    if (of_group[group].size() % kBlockUnit != 0) {
      return InvalidArgument(fmt::format("tensor '{}' has {} inputs in group {}, not a multiple of {}", name,
                                         of_group[group].size(), group, kBlockUnit));
    }
    parts->order.insert(parts->order.end(), of_group[group].begin(), of_group[group].end());
    parts->block_groups.insert(parts->block_groups.end(), of_group[group].size() / kBlockUnit,
                               static_cast<int32_t>(group));
  }
  if (std::ranges::is_sorted(parts->order)) parts->order.clear();
  return Status::Ok();
}

void UseConsecutiveGroups(int64_t inputs, int64_t group, PackedParts* parts) {
  for (int64_t i = 0; i < inputs; i += kBlockUnit) {
    parts->block_groups.push_back(group == 0 ? 0 : static_cast<int32_t>(i / group));
  }
}

Status TakeFloatScales(const std::string& name, int64_t matrices, int64_t cols, float largest, TensorParts* all,
                       PackedParts* parts) {
  ASSIGN_OR_RETURN(const FileTensor* tensor, all->TakeFloats(name));
  const int64_t down = Blocks(parts->matrix_rows, parts->block.outputs), across = Blocks(cols, parts->block.inputs);
  std::vector<int64_t> expected{down, across};
  if (matrices > 1) expected.insert(expected.begin(), matrices);
  if (WithoutTrailingOnes(tensor->shape) != WithoutTrailingOnes(expected)) {
    return Corruption(
        fmt::format("tensor '{}' has shape {}, expected {}", name, ShapeText(tensor->shape), ShapeText(expected)));
  }
  parts->scale_cols = across;
  parts->float_scales.resize(static_cast<size_t>(matrices * down * across));
  for (size_t i = 0; i < parts->float_scales.size(); ++i) {
    RETURN_IF_ERROR(ReadScale(name, tensor->data, static_cast<int64_t>(i), largest, &parts->float_scales[i]));
  }
  return Status::Ok();
}

Status JoinNvfp4(const std::string& module, const std::string& integers, const std::string& factor, bool inverse,
                 TensorParts* all) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> shape, all->Shape(integers, 2));
  const int64_t rows = shape[0], cols = 2 * shape[1];
  RETURN_IF_ERROR(CheckInputs(integers, cols, kNvfp4Block));
  PackedParts parts{.kind = PackedParts::Kind::kNvfp4, .matrix_rows = rows, .block = {0, 0}};
  RETURN_IF_ERROR(all->Take(integers, "U8", shape, &parts.integers));
  RETURN_IF_ERROR(all->Take(module + ".weight_scale", kE4M3Name, {rows, cols / kNvfp4Group}, &parts.scales));
  RETURN_IF_ERROR(TakeFloatScales(factor, 1, cols, kLargestE4M3 * kLargestE2M1, all, &parts));
  float& value = parts.float_scales.front();
  const float stored = value;
  if (inverse) value = 1 / value;
  if (inverse && !(value <= std::numeric_limits<float>::max() / (kLargestE4M3 * kLargestE2M1))) {
    return Corruption(fmt::format("tensor '{}' has a scale of {}", factor, stored));
  }
  return all->Add(PackedTensor(module + ".weight", {rows, cols}, DType::kScaledNVFP4, std::move(parts)));
}

Status JoinE4M3(const std::string& module, const std::string& scale, const std::optional<ScaleBlock>& block,
                TensorParts* all) {
  const std::string weight = module + ".weight";
  const std::vector<int64_t> shape = all->others().at(weight)->shape;
  if (shape.size() != 2 && shape.size() != 3) {
    return Corruption(fmt::format("tensor '{}' has {} dimensions", weight, shape.size()));
  }
  const bool one = !block && all->IsOneNumber(scale);  // for all experts
  const int64_t experts = shape.size() == 3 ? shape[0] : 1, rows = shape[shape.size() - 2], cols = shape.back();
  const int64_t matrices = one ? 1 : experts;
  RETURN_IF_ERROR(CheckInputs(weight, cols, kBlockUnit));
  PackedParts parts{.kind = PackedParts::Kind::kE4M3, .matrix_rows = experts / matrices * rows};
  RETURN_IF_ERROR(all->Take(weight, kE4M3Name, shape, &parts.integers));
  parts.block = block.value_or(ScaleBlock{one ? 0 : 1, 0});
  RETURN_IF_ERROR(TakeFloatScales(scale, matrices, cols, kLargestE4M3, all, &parts));
  return all->Add(PackedTensor(weight, shape, DType::kScaledE4M3, std::move(parts)));
}

}  // namespace ringside
