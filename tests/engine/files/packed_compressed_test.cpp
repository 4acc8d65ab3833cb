// Hostile parts of compressed-tensors and ModelOpt files: refused with the tensor and the value.
// compressed_model_test.cpp has the values of whole models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/files/packed_parts.h"

namespace ringside::packed_compressed {
namespace {

using Group = CompressedGroup;
using GroupKind = CompressedGroup::Kind;
using PackedCompressed = PackedFiles;

constexpr auto kDamaged = StatusCode::kCorruption, kInvalid = StatusCode::kInvalidArgument;

PackedFormat Format(Group group, std::vector<std::string> ignored = {}) {
  group.all = group.all || group.modules.empty();
  return {.kind = PackedFormat::Kind::kCompressed, .groups = {std::move(group)}, .ignored = std::move(ignored)};
}
const Group kInt4{.kind = GroupKind::kPackedInt, .bits = 4, .block = {1, 32}};
const Group kInt4Zeros{.kind = GroupKind::kPackedInt, .bits = 4, .block = {1, 32}, .symmetric = false};
const Group kInt8{.kind = GroupKind::kInt, .bits = 8, .block = {1, 0}};
const Group kE4M3Blocks{.kind = GroupKind::kE4M3, .block = {128, 128}};
const Group kNvfp4{.kind = GroupKind::kNvfp4};
const Group kMxfp4{.kind = GroupKind::kMxfp4};
constexpr uint32_t kOneBits = 0x3f800000;

std::vector<Part> Int4Parts() {
  return {{"a.weight_packed", "I32", {4, 8}, 0x99}, {"a.weight_scale", "F16", {4, 2}, 0x3c}};
}
std::vector<Part> With(std::vector<Part> parts, Part part) {
  parts.push_back(std::move(part));
  return parts;
}
std::vector<Part> Instead(std::vector<Part> parts, size_t i, Part part) {
  parts[i] = std::move(part);
  return parts;
}

TEST_F(PackedCompressed, RefusesMismatchedIntegers) {
  const PackedFormat format = Format(kInt4);
  ASSERT_TRUE(Join(Int4Parts(), format).ok());
  ExpectRefused(Instead(Int4Parts(), 0, {"a.weight_packed", "I32", {4}}), format, kDamaged, "has 1 dimensions");
  ExpectRefused(Instead(Int4Parts(), 0, {"a.weight_packed", "U8", {4, 8}}), format, kInvalid,
                "'a.weight_packed' is stored as U8, only I32");
  ExpectRefused(Instead(Int4Parts(), 0, {"a.weight_packed", "I32", {4, 7}}), format, kInvalid,
                "'a.weight_packed' has 56 inputs, not a multiple of 32");
  ExpectRefused(Instead(Int4Parts(), 1, {"b.weight_scale", "F16", {4, 2}}), format, kDamaged,
                "'a.weight_scale' is missing");
  ExpectRefused(Instead(Int4Parts(), 1, {"a.weight_scale", "F16", {2, 4}}), format, kDamaged,
                "'a.weight_scale' has shape [2, 4], expected [4, 2]");
  ExpectRefused(Instead(Int4Parts(), 1, {"a.weight_scale", "F32", {4, 2}, 0xff}), format, kDamaged,
                "'a.weight_scale' has a scale of ");
  ExpectRefused(With(Int4Parts(), {"a.weight_shape", "I64", {2}, 1}), format, kDamaged,
                "'a.weight_shape' is [72340172838076673, 72340172838076673], expected [4, 64]");
  ExpectRefused(With(Int4Parts(), {"a.weight_shape", "I64", {3}, 1}), format, kDamaged, "has shape [3], expected [2]");
  ExpectRefused(With(Int4Parts(), {"a.weight_g_idx", "I32", {64}, 7}), format, kDamaged,
                "'a.weight_g_idx' has a group 117901063 of 2");
  EXPECT_TRUE(Join(With(Int4Parts(), {"a.weight_g_idx", "I32", {64}, 0xff}), format).ok());  // -1: none
  Group wide = kInt4;
  wide.block.inputs = 96;
  ExpectRefused(Int4Parts(), Format(wide), kInvalid,
                "'a.weight_packed' has 64 inputs, not a multiple of the group size of 96");
}

TEST_F(PackedCompressed, RefusesMismatchedZeroPoints) {
  const auto zeros = [](std::vector<int64_t> shape, const std::string& type = "I32") {
    return With(Int4Parts(), {"a.weight_zero_point", type, std::move(shape)});
  };
  EXPECT_TRUE(Join(zeros({1, 2}), Format(kInt4Zeros)).ok());
  ExpectRefused(Int4Parts(), Format(kInt4Zeros), kDamaged, "'a.weight_zero_point' is missing");
  ExpectRefused(zeros({4, 2}), Format(kInt4Zeros), kDamaged, "has shape [4, 2], expected [1, 2]");
  ExpectRefused(zeros({1, 2}, "I8"), Format(kInt4Zeros), kInvalid, "is stored as I8, only I32");
  const std::vector<Part> eight = {{"a.weight", "I8", {4, 64}}, {"a.weight_scale", "F16", {4, 1}, 0x3c}};
  EXPECT_TRUE(Join(eight, Format(kInt8)).ok());
  ExpectRefused(With(eight, {"a.weight_zero_point", "I8", {4, 1}}), Format(kInt8), kInvalid,
                "'a.weight_zero_point': zero points of 8-bit integers are not supported");
}

TEST_F(PackedCompressed, RefusesMismatchedE4M3Blocks) {
  const auto parts = [](std::vector<int64_t> shape) {
    return std::vector<Part>{{"a.weight", "F8_E4M3", {200, 288}, 0x30},
                             {"a.weight_scale", "BF16", std::move(shape), 0x3c}};
  };
  const PackedFormat format = Format(kE4M3Blocks);
  EXPECT_TRUE(Join(parts({2, 3}), format).ok());
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{1, 3}, {3, 2}, {2, 2}, {6}, {2, 3, 2}, {200, 1}}) {
    ExpectRefused(parts(shape), format, kDamaged, "expected [2, 3]");
  }
  PackedFormat fp8{.kind = PackedFormat::Kind::kE4M3, .block = ScaleBlock{128, 128}};
  ExpectRefused(parts({2, 3}), fp8, kDamaged, "'a.weight_scale_inv' is missing");
  std::vector<Part> inverse = parts({2, 3});
  inverse[1].name = "a.weight_scale_inv";
  EXPECT_TRUE(Join(inverse, fp8).ok());
  for (const int32_t bits : {0x7fc00000, 0x7f800000, static_cast<int32_t>(0xbf800000), 0x7f000000}) {
    inverse[1] = {"a.weight_scale_inv", "F32", {2, 3}, 0, std::vector<int32_t>(6, static_cast<int32_t>(kOneBits))};
    inverse[1].words.back() = bits;
    ExpectRefused(inverse, fp8, kDamaged, "'a.weight_scale_inv' has a scale of ");
  }
  const std::vector<Part> experts = {{"a.weight", "F8_E4M3", {2, 200, 288}, 0x30},
                                     {"a.weight_scale_inv", "BF16", {2, 2, 3}, 0x3c}};
  EXPECT_TRUE(Join(experts, fp8).ok());
  ExpectRefused(Instead(experts, 1, {"a.weight_scale_inv", "BF16", {4, 3}, 0x3c}), fp8, kDamaged, "expected [2, 2, 3]");
}

TEST_F(PackedCompressed, RefusesMismatchedFourBitFloats) {
  const auto parts = [](float global) {
    int32_t bits;
    std::memcpy(&bits, &global, 4);
    return std::vector<Part>{{"a.weight_packed", "U8", {4, 64}, 0x72},
                             {"a.weight_scale", "F8_E4M3", {4, 8}, 0x38},
                             {"a.weight_global_scale", "F32", {1}, 0, {bits}}};
  };
  const PackedFormat format = Format(kNvfp4);
  ASSERT_TRUE(Join(parts(2), format).ok());
  const std::vector<float> row = FirstRow(*Join(parts(2), format));  // codes 2 and 7: 1 and 6, divided by 2
  for (size_t i = 0; i < row.size(); ++i) EXPECT_EQ(row[i], i % 2 == 0 ? 0.5f : 3.0f);
  for (const float global : {0.0f, -1.0f, 1e-38f, std::numeric_limits<float>::infinity(), std::nanf("")}) {
    ExpectRefused(parts(global), format, kDamaged, "'a.weight_global_scale' has a scale of ");
  }
  ExpectRefused(Instead(parts(1), 2, {"a.weight_global_scale", "F32", {4}}), format, kDamaged, "expected [1, 1]");
  ExpectRefused(Instead(parts(1), 1, {"a.weight_scale", "F8_E4M3", {4, 4}}), format, kDamaged, "expected [4, 8]");
  ExpectRefused(Instead(parts(1), 1, {"a.weight_scale", "U8", {4, 8}}), format, kInvalid, "only F8_E4M3");
  ExpectRefused(Instead(parts(1), 0, {"a.weight_packed", "U8", {4, 48}}), format, kInvalid,
                "has 96 inputs, not a multiple of 64");
  const std::vector<Part> mx = {{"a.weight_packed", "U8", {4, 32}, 0x72}, {"a.weight_scale", "U8", {4, 2}, 127}};
  EXPECT_TRUE(Join(mx, Format(kMxfp4)).ok());
  ExpectRefused(Instead(mx, 1, {"a.weight_scale", "U8", {4, 1}}), Format(kMxfp4), kDamaged, "expected [4, 2]");
}

TEST_F(PackedCompressed, ModulesTakeTheParametersOfTheirGroup) {
  Group own = kInt4;
  own.modules = {"re:a$"};
  own.block.inputs = 64;
  PackedFormat format = Format(kInt4);
  format.groups.insert(format.groups.begin(), own);
  std::vector<Part> parts = Int4Parts();
  parts[1].shape = {4, 1};
  for (const Part& part : Int4Parts()) parts.push_back({"b" + part.name.substr(1), part.type, part.shape, part.byte});
  EXPECT_TRUE(Join(parts, format).ok());
  format.groups.pop_back();
  ExpectRefused(parts, format, kInvalid, "'b.weight_packed' is quantized, but no group");
  ExpectRefused(Int4Parts(), Format(kInt4, {"re:.*a"}), kInvalid,
                "'a.weight_packed' is quantized, but quantization_config.ignore names its module");
  ExpectRefused(Int4Parts(), Format(kInt8), kInvalid, "'a.weight_packed' does not have the format of its group");
  ExpectRefused(Int4Parts(), Format(kInt4, {"re:("}), kInvalid, "the pattern 're:('");
}

TEST_F(PackedCompressed, RefusesMatricesThatOccurTwice) {
  ExpectRefused(With(Int4Parts(), {"a.weight", "F16", {4, 64}}), Format(kInt4), kDamaged,
                "'a.weight' is stored twice, in different formats");
  ExpectRefused(With(Int4Parts(), {"a.weight", "BOOL", {4, 64}}), Format(kInt4), kDamaged,
                "'a.weight' is stored twice");
  ExpectRefused({{"a.qweight", "I32", {8, 8}},
                 {"a.qzeros", "I32", {2, 1}},
                 {"a.scales", "F16", {2, 8}, 0x3c},
                 {"a.weight", "F16", {8, 64}}},
                {PackedFormat::Kind::kGptq, 32, true, 1}, kDamaged, "'a.weight' is stored twice");
}

}  // namespace
}  // namespace ringside::packed_compressed
