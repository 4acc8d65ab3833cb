// The matrices of compressed-tensors files: each module's group of the config determines its parts.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "engine/files/module_pattern.h"
#include "engine/files/packed_joins.h"
#include "kernels/formats/half.h"

namespace ringside {
namespace {

using Group = CompressedGroup;

constexpr float kLargestInt = 128;
constexpr std::string_view kPacked = ".weight_packed", kPlain = ".weight";

/// The groups of a config with their patterns.
class Groups {
 public:
  static Result<Groups> Make(const PackedFormat& format) {
    Groups out(format);
    ASSIGN_OR_RETURN(out.ignored_, Parse(format.ignored));
    for (const Group& group : format.groups) {
      ASSIGN_OR_RETURN(out.modules_.emplace_back(), Parse(group.modules));
    }
    return out;
  }

  /// The group of a module with packed parts. A module's own group precedes one for all modules.
  Result<const Group*> Find(const std::string& module, const std::string& tensor) const {
    const auto matches = [&](const auto& pattern) { return pattern.Matches(module); };
    if (std::ranges::any_of(ignored_, matches)) {
      return InvalidArgument(
          fmt::format("tensor '{}' is quantized, but "
                      "quantization_config.ignore names its module",
                      tensor));
    }
    for (size_t i = 0; i < modules_.size(); ++i) {
      if (std::ranges::any_of(modules_[i], matches)) return &format_.groups[i];
    }
    const auto all = std::ranges::find(format_.groups, true, &Group::all);
    if (all != format_.groups.end()) return &*all;
    return InvalidArgument(
        fmt::format("tensor '{}' is quantized, but no group of "
                    "quantization_config.config_groups has its module as a target",
                    tensor));
  }

 private:
  explicit Groups(const PackedFormat& format) : format_(format) {}

  static Result<std::vector<ModulePattern>> Parse(const std::vector<std::string>& texts) {
    std::vector<ModulePattern> out;
    for (const std::string& text : texts) {
      ASSIGN_OR_RETURN(out.emplace_back(), ModulePattern::Parse(text));
    }
    return out;
  }

  const PackedFormat& format_;
  std::vector<ModulePattern> ignored_;
  std::vector<std::vector<ModulePattern>> modules_;  // by group
};

bool FitsHalf(float value) { return HalfToFloat(FloatToHalf(value)) == value; }

/// Takes zero points of 4-bit integers, if the file has them: packed along the outputs, or one byte each.
Status TakeZeros(const std::string& name, const Group& group, int64_t rows, int64_t groups, TensorParts* all,
                 PackedParts* parts) {
  if (group.symmetric && !all->Has(name)) return Status::Ok();
  return all->Take(name, "I32", {(rows + 7) / 8, groups}, &parts->zeros);
}

/// Act-order, unless all groups are -1.
Status TakeGroups(const std::string& name, int64_t cols, int64_t group, int64_t groups, TensorParts* all,
                  PackedParts* parts) {
  std::span<const std::byte> g_idx;
  if (all->Has(name)) RETURN_IF_ERROR(all->Take(name, "I32", {cols}, &g_idx));
  const bool none = std::ranges::all_of(g_idx, [](std::byte byte) { return byte == std::byte{0xff}; });
  if (!none) return SortByGroup(name, g_idx, groups, parts);
  UseConsecutiveGroups(cols, group, parts);
  return Status::Ok();
}

Status JoinPackedInt(const std::string& module, const Group& group, TensorParts* all) {
  const std::string integers = module + std::string(kPacked), sizes = module + ".weight_shape";
  ASSIGN_OR_RETURN(const std::vector<int64_t> shape, all->Shape(integers, 2));
  const int64_t rows = shape[0], cols = shape[1] * (32 / group.bits), per_scale = group.block.inputs;
  RETURN_IF_ERROR(CheckInputs(integers, cols, kBlockUnit));
  if (per_scale != 0 && cols % per_scale != 0) {
    return InvalidArgument(
        fmt::format("tensor '{}' has {} inputs, not a multiple of the group size of {}", integers, cols, per_scale));
  }
  PackedParts parts{.kind = group.bits == 4 ? PackedParts::Kind::kInt4 : PackedParts::Kind::kInt8,
                    .matrix_rows = rows,
                    .block = group.block};
  RETURN_IF_ERROR(all->Take(integers, "I32", shape, &parts.integers));
  if (all->Has(sizes)) {
    std::span<const std::byte> bytes;
    int64_t stored[2] = {};
    RETURN_IF_ERROR(all->Take(sizes, "I64", {2}, &bytes));
    std::memcpy(stored, bytes.data(), sizeof stored);
    if (stored[0] != rows || stored[1] != cols) {
      return Corruption(
          fmt::format("tensor '{}' is [{}, {}], expected [{}, {}]", sizes, stored[0], stored[1], rows, cols));
    }
  }
  RETURN_IF_ERROR(TakeFloatScales(module + ".weight_scale", 1, cols, kLargestInt, all, &parts));
  const std::string zeros = module + ".weight_zero_point";
  if (group.bits == 4) {
    RETURN_IF_ERROR(TakeZeros(zeros, group, rows, parts.scale_cols, all, &parts));
  } else if (!group.symmetric || all->Has(zeros)) {
    return InvalidArgument(fmt::format("tensor '{}': zero points of 8-bit integers are not supported", zeros));
  }
  RETURN_IF_ERROR(TakeGroups(module + ".weight_g_idx", cols, per_scale, parts.scale_cols, all, &parts));
  const bool halves = group.bits == 4 && std::ranges::all_of(parts.float_scales, FitsHalf);
  const DType dtype = halves ? DType::kQ4_Z : DType::kScaledI8;
  return all->Add(PackedTensor(module + std::string(kPlain), {rows, cols}, dtype, std::move(parts)));
}

Status JoinInt(const std::string& module, const Group& group, TensorParts* all) {
  const std::string weight = module + std::string(kPlain), zeros = module + ".weight_zero_point";
  ASSIGN_OR_RETURN(const std::vector<int64_t> shape, all->Shape(weight, 2));
  RETURN_IF_ERROR(CheckInputs(weight, shape[1], kBlockUnit));
  PackedParts parts{.kind = PackedParts::Kind::kPlainInt8, .matrix_rows = shape[0], .block = group.block};
  RETURN_IF_ERROR(all->Take(weight, "I8", shape, &parts.integers));
  RETURN_IF_ERROR(TakeFloatScales(module + ".weight_scale", 1, shape[1], kLargestInt, all, &parts));
  if (!group.symmetric || all->Has(zeros)) {
    return InvalidArgument(fmt::format("tensor '{}': zero points of 8-bit integers are not supported", zeros));
  }
  UseConsecutiveGroups(shape[1], group.block.inputs, &parts);
  return all->Add(PackedTensor(weight, shape, DType::kScaledI8, std::move(parts)));
}

Status JoinMxfp4(const std::string& module, TensorParts* all) {
  const std::string integers = module + std::string(kPacked);
  ASSIGN_OR_RETURN(const std::vector<int64_t> shape, all->Shape(integers, 2));
  const int64_t rows = shape[0], cols = 2 * shape[1];
  RETURN_IF_ERROR(CheckInputs(integers, cols, kBlockUnit));
  PackedParts parts{.kind = PackedParts::Kind::kMxfp4};
  RETURN_IF_ERROR(all->Take(integers, "U8", shape, &parts.integers));
  RETURN_IF_ERROR(all->Take(module + ".weight_scale", "U8", {rows, cols / kBlockUnit}, &parts.scales));
  return all->Add(PackedTensor(module + std::string(kPlain), {rows, cols}, DType::kMXFP4, std::move(parts)));
}

Status JoinOne(const std::string& module, const Group& group, TensorParts* all) {
  switch (group.kind) {
    case Group::Kind::kPackedInt:
      return JoinPackedInt(module, group, all);
    case Group::Kind::kInt:
      return JoinInt(module, group, all);
    case Group::Kind::kE4M3:
      return JoinE4M3(module, module + ".weight_scale", group.block, all);
    case Group::Kind::kNvfp4:
      return JoinNvfp4(module, module + std::string(kPacked), module + ".weight_global_scale", true, all);
    case Group::Kind::kMxfp4:
      return JoinMxfp4(module, all);
  }
  CheckFailed(__FILE__, __LINE__, "unknown kind");
}

/// Whether matrices of `kind` are stored under X.weight_packed.
bool IsPacked(Group::Kind kind) { return kind != Group::Kind::kInt && kind != Group::Kind::kE4M3; }

}  // namespace

Status JoinCompressed(const PackedFormat& format, const SafeTensors& file, TensorParts* all) {
  ASSIGN_OR_RETURN(const Groups groups, Groups::Make(format));
  for (const OtherTensor& tensor : file.others()) {
    const bool packed = tensor.name.ends_with(kPacked);
    if (!packed && !(tensor.name.ends_with(kPlain) && (tensor.type == "I8" || tensor.type == kE4M3Name))) continue;
    const std::string module = tensor.name.substr(0, tensor.name.size() - (packed ? kPacked : kPlain).size());
    ASSIGN_OR_RETURN(const Group* group, groups.Find(module, tensor.name));
    if (packed != IsPacked(group->kind)) {
      return InvalidArgument(
          fmt::format("tensor '{}' does not have the format "
                      "of its group in quantization_config",
                      tensor.name));
    }
    RETURN_IF_ERROR(JoinOne(module, *group, all));
  }
  return Status::Ok();
}

}  // namespace ringside
