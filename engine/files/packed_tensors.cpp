#include "engine/files/packed_tensors.h"

#include <fmt/format.h>

#include <string_view>

#include "engine/files/packed_joins.h"

namespace ringside {
namespace {

using Kind = PackedFormat::Kind;

constexpr std::string_view kUnusedSuffixes[] = {
    ".input_scale", ".input_scale_ub", ".output_scale",       ".k_scale",         ".v_scale",
    ".q_scale",     ".kv_scale",       ".input_global_scale", ".input_zero_point"};

/// The matrix of module `name` in AWQ or GPTQ.
Status JoinIntegers(const std::string& name, const PackedFormat& format, TensorParts* all) {
  const std::string integers = name + ".qweight";
  ASSIGN_OR_RETURN(const std::vector<int64_t> shape, all->Shape(integers, 2));
  const bool awq = format.kind == Kind::kAwq;
  const int64_t rows = awq ? 8 * shape[1] : shape[1], cols = awq ? shape[0] : 8 * shape[0];
  const int64_t group = format.group == 0 ? cols : format.group, groups = (cols + group - 1) / group;
  if (cols % kBlockUnit != 0 || rows % 8 != 0) {
    return InvalidArgument(fmt::format("tensor '{}' has {} inputs and {} outputs, not multiples of {} and 8", integers,
                                       cols, rows, kBlockUnit));
  }
  PackedParts parts{.kind = awq ? PackedParts::Kind::kAwq : PackedParts::Kind::kGptq,
                    .zero_offset = format.zero_offset};
  RETURN_IF_ERROR(all->Take(integers, "I32", shape, &parts.integers));
  RETURN_IF_ERROR(all->TakeHalves(name + ".scales", {groups, rows}, &parts.scales));
  if (format.has_zero_points || all->Has(name + ".qzeros")) {
    RETURN_IF_ERROR(all->Take(name + ".qzeros", "I32", {groups, rows / 8}, &parts.zeros));
  }
  if (const std::string of = name + ".g_idx"; !awq && all->Has(of)) {
    std::span<const std::byte> g_idx;
    RETURN_IF_ERROR(all->Take(of, "I32", {cols}, &g_idx));
    RETURN_IF_ERROR(SortByGroup(of, g_idx, groups, &parts));
  } else {
    UseConsecutiveGroups(cols, group, &parts);
  }
  return all->Add(PackedTensor(name + ".weight", {rows, cols}, DType::kQ4_Z, std::move(parts)));
}

Status JoinMxfp4Blocks(const std::string& name, TensorParts* all) {
  const std::string integers = name + "_blocks";
  const std::vector<int64_t> shape = all->others().at(integers)->shape;
  if ((shape.size() != 3 && shape.size() != 4) || shape.back() != kBlockUnit / 2) {
    return Corruption(fmt::format("tensor '{}' has shape {}, not [experts, outputs, blocks, {}]", integers,
                                  ShapeText(shape), kBlockUnit / 2));
  }
  PackedParts parts;
  RETURN_IF_ERROR(all->Take(integers, "U8", shape, &parts.integers));
  std::vector<int64_t> sizes(shape.begin(), shape.end() - 1);
  RETURN_IF_ERROR(all->Take(name + "_scales", "U8", sizes, &parts.scales));
  sizes.back() *= kBlockUnit;
  return all->Add(PackedTensor(name, sizes, DType::kMXFP4, std::move(parts)));
}

/// The parts of one matrix: the suffix and the type (any, if empty) of the part
/// that exists for each.
struct MainPart {
  Kind kind;
  std::string_view suffix, type;
  Status (*join)(const std::string& module, const PackedFormat& format, TensorParts* all);
};
constexpr MainPart kMainParts[] = {
    {Kind::kAwq, ".qweight", "", JoinIntegers},
    {Kind::kGptq, ".qweight", "", JoinIntegers},
    {Kind::kMxfp4, "_blocks", "",
     [](const std::string& module, const PackedFormat&, TensorParts* all) { return JoinMxfp4Blocks(module, all); }},
    {Kind::kE4M3, ".weight", kE4M3Name,
     [](const std::string& module, const PackedFormat& format, TensorParts* all) {
       const char* scale = format.block ? ".weight_scale_inv" : ".weight_scale";
       return JoinE4M3(module, module + scale, format.block, all);
     }},
    {Kind::kNvfp4, ".weight", "U8", [](const std::string& module, const PackedFormat&, TensorParts* all) {
       return JoinNvfp4(module, module + ".weight", module + ".weight_scale_2", false, all);
     }}};

Status JoinAll(const PackedFormat& format, const SafeTensors& file, TensorParts* all) {
  if (format.kind == Kind::kCompressed) return JoinCompressed(format, file, all);
  for (const MainPart& part : kMainParts) {
    if (part.kind != format.kind) continue;
    for (const OtherTensor& tensor : file.others()) {
      if (!tensor.name.ends_with(part.suffix) || (!part.type.empty() && tensor.type != part.type)) continue;
      const std::string module = tensor.name.substr(0, tensor.name.size() - part.suffix.size());
      RETURN_IF_ERROR(part.join(module, format, all));
    }
  }
  return Status::Ok();
}

}  // namespace

Result<JoinedTensors> JoinPacked(const SafeTensors& file, const std::optional<PackedFormat>& format) {
  TensorParts all(file);
  if (!format) return all.Finish();
  RETURN_IF_ERROR(JoinAll(*format, file, &all));
  if (format->kind != Kind::kAwq && format->kind != Kind::kGptq) all.RemoveBySuffix(kUnusedSuffixes);
  return all.Finish();
}

}  // namespace ringside
