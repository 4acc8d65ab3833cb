// Parts of packed matrices: their dequantized values, and refusals. packed_model_test.cpp has the values of whole
// models.
#include "engine/files/packed_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/formats/file_formats.h"
#include "tests/engine/files/packed_parts.h"

namespace ringside {
namespace {

using ::testing::Each;
using Kind = PackedFormat::Kind;

using PackedTensors = PackedFiles;

const PackedFormat kE4M3{Kind::kE4M3};
const PackedFormat kGptq{Kind::kGptq, 32, true, 1}, kAwq{Kind::kAwq, 32, true, 0}, kMxfp4{Kind::kMxfp4};
constexpr uint8_t kOne = 0x3c;  // 0x3c3c is a float16 of 1.05859375

std::vector<Part> GptqParts() {
  return {{"a.qweight", "I32", {8, 8}, 0xbb}, {"a.qzeros", "I32", {2, 1}, 0x77}, {"a.scales", "F16", {2, 8}, kOne}};
}

TEST_F(PackedTensors, GptqStoresZeroPointsMinusOne) {
  const float scale = 1.05859375f;
  for (const auto& [byte, offset, zero] : {std::tuple{0x77, 1, 8}, {0x77, 0, 7}, {0xff, 1, 0}}) {
    std::vector<Part> parts = GptqParts();
    parts[1].byte = static_cast<uint8_t>(byte);
    PackedFormat format = kGptq;
    format.zero_offset = offset;
    const auto joined = Join(parts, format);
    ASSERT_TRUE(joined.ok()) << joined.status().ToString();
    EXPECT_EQ(joined->tensors.front().name, "a.weight");
    EXPECT_EQ(joined->tensors.front().shape, (std::vector<int64_t>{8, 64}));
    EXPECT_THAT(FirstRow(*joined), Each(scale * static_cast<float>(11 - zero)));
  }
}

TEST_F(PackedTensors, SingleGroupMayHaveAllInputs) {
  std::vector<Part> parts = GptqParts();
  parts[1].shape = {1, 1}, parts[2].shape = {1, 8};
  EXPECT_TRUE(Join(parts, {Kind::kGptq, 0, true, 1}).ok());
}

TEST_F(PackedTensors, AwqWithoutZeroPointsUsesEight) {
  const std::vector<Part> parts = {{"a.qweight", "I32", {32, 1}, 0xbb}, {"a.scales", "F16", {1, 8}, kOne}};
  const auto joined = Join(parts, {Kind::kAwq, 32, false, 0});
  ASSERT_TRUE(joined.ok()) << joined.status().ToString();
  EXPECT_THAT(FirstRow(*joined), Each(3 * 1.05859375f));
  ExpectRefused(parts, kAwq, StatusCode::kCorruption, "'a.qzeros' is missing");
}

TEST_F(PackedTensors, UnpackedTensorsPassThrough) {
  std::vector<Part> parts = GptqParts();
  parts.push_back({"a.bias", "F16", {8}, kOne});
  parts.push_back({"mask", "U8", {3}, 1});
  const auto joined = Join(parts, kGptq);
  ASSERT_TRUE(joined.ok()) << joined.status().ToString();
  ASSERT_EQ(joined->tensors.size(), 2u);
  EXPECT_EQ(joined->tensors.back().name, "a.bias");
  ASSERT_EQ(joined->unsupported.size(), 1u);
  EXPECT_EQ(joined->unsupported.front().first, "mask");
}

TEST_F(PackedTensors, RefusesMismatchedParts) {
  const auto damaged = StatusCode::kCorruption, invalid = StatusCode::kInvalidArgument;
  const auto changed = [](size_t i, const Part& part) {
    std::vector<Part> parts = GptqParts();
    parts[i] = part;
    return parts;
  };
  ExpectRefused(changed(0, {"a.qweight", "I32", {8}}), kGptq, damaged, "'a.qweight' has 1 dimensions");
  ExpectRefused(changed(0, {"a.qweight", "U8", {8, 8}}), kGptq, invalid, "'a.qweight' is stored as U8, only I32");
  ExpectRefused(changed(0, {"a.qweight", "I32", {7, 8}}), kGptq, invalid, "has 56 inputs and 8 outputs, not multiples");
  ExpectRefused(changed(0, {"a.qweight", "I32", {8, 7}}), kGptq, invalid, "has 64 inputs and 7 outputs, not multiples");
  ExpectRefused(changed(1, {"b.qzeros", "I32", {2, 1}}), kGptq, damaged, "'a.qzeros' is missing");
  ExpectRefused(changed(1, {"a.qzeros", "I32", {1, 1}}), kGptq, damaged, "shape [1, 1], expected [2, 1]");
  ExpectRefused(changed(2, {"a.scales", "BF16", {2, 8}}), kGptq, invalid, "'a.scales' is stored as BF16, only F16");
  ExpectRefused(changed(2, {"a.scales", "F16", {8, 2}}), kGptq, damaged, "shape [8, 2], expected [2, 8]");
  ExpectRefused(changed(2, {"b.scales", "F16", {2, 8}}), kGptq, damaged, "'a.scales' is missing");
}

TEST_F(PackedTensors, ChecksEveryInputGroup) {
  const auto with_groups = [](std::vector<int32_t> groups) {
    std::vector<Part> parts = GptqParts();
    const auto count = static_cast<int64_t>(groups.size());
    parts.push_back({"a.g_idx", "I32", {count}, 0, std::move(groups)});
    return parts;
  };
  std::vector<int32_t> groups(64);
  for (size_t i = 0; i < groups.size(); ++i) groups[i] = i % 2 == 0 ? 1 : 0;
  const auto joined = Join(with_groups(groups), kGptq);
  ASSERT_TRUE(joined.ok()) << joined.status().ToString();
  const auto order = joined->tensors.front().data.order;
  ASSERT_EQ(order.size(), 64u);
  EXPECT_EQ(order[0], 1);
  EXPECT_EQ(order[32], 0);
  for (size_t i = 0; i < groups.size(); ++i) groups[i] = static_cast<int32_t>(i / 32);
  EXPECT_TRUE(Join(with_groups(groups), kGptq)->tensors.front().data.order.empty());
  for (const int32_t group : {2, -1, INT32_MIN, INT32_MAX}) {
    std::vector<int32_t> bad = groups;
    bad[5] = group;
    ExpectRefused(with_groups(bad), kGptq, StatusCode::kCorruption, "'a.g_idx' has a group " + std::to_string(group));
  }
  groups[5] = 1;
  ExpectRefused(with_groups(groups), kGptq, StatusCode::kInvalidArgument, "'a.g_idx' has 31 inputs in group 0");
  groups.pop_back();
  ExpectRefused(with_groups(groups), kGptq, StatusCode::kCorruption, "'a.g_idx' has shape [63]");
}

TEST_F(PackedTensors, Mxfp4HasTwoConsecutiveInputsPerByte) {
  const auto joined = Join({{"e_blocks", "U8", {1, 1, 1, 16}, 0x72}, {"e_scales", "U8", {1, 1, 1}, 128}}, kMxfp4);
  ASSERT_TRUE(joined.ok()) << joined.status().ToString();
  EXPECT_EQ(joined->tensors.front().name, "e");
  const std::vector<float> row = FirstRow(*joined);
  for (size_t i = 0; i < 32; ++i) EXPECT_EQ(row[i], i % 2 == 0 ? 2.0f : 12.0f) << i;
  ExpectRefused({{"e_blocks", "U8", {1, 1, 1, 16}}}, kMxfp4, StatusCode::kCorruption, "'e_scales' is missing");
  ExpectRefused({{"e_blocks", "U8", {1, 1, 1, 8}}}, kMxfp4, StatusCode::kCorruption,
                "not [experts, outputs, blocks, 16]");
  const auto dense =
      Join({{"e.weight_blocks", "U8", {3, 1, 16}, 0x72}, {"e.weight_scales", "U8", {3, 1}, 128}}, kMxfp4);
  ASSERT_TRUE(dense.ok()) << dense.status().ToString();
  EXPECT_EQ(dense->tensors.front().name, "e.weight");
  EXPECT_EQ(dense->tensors.front().shape, (std::vector<int64_t>{3, 32}));
  ExpectRefused({{"e_blocks", "U8", {1, 1, 1, 16}}, {"e_scales", "U8", {1, 1}}}, kMxfp4, StatusCode::kCorruption,
                "'e_scales' has shape [1, 1]");
}

// 0x30 is 0.5 in E4M3, 0x3c3c a float16 of 1.05859375 and a bfloat16 of 0.011474609375.
std::vector<Part> E4M3Parts(const Part& scale) { return {{"a.weight", "F8_E4M3", {3, 64}, 0x30}, scale}; }

TEST_F(PackedTensors, E4M3HasPerChannelOrPerTensorScales) {
  const std::vector<std::pair<Part, float>> scales = {{{"a.weight_scale", "F16", {3, 1}, kOne}, 1.05859375f},
                                                      {{"a.weight_scale", "BF16", {3}, kOne}, 0.011474609375f},
                                                      {{"a.weight_scale", "F32", {}, 0, {0x40000000}}, 2},
                                                      {{"a.weight_scale", "F32", {1}, 0, {0x40000000}}, 2},
                                                      {{"a.weight_scale", "F32", {1}, 0}, 0}};
  for (const auto& [part, scale] : scales) {
    const auto joined = Join(E4M3Parts(part), kE4M3);
    ASSERT_TRUE(joined.ok()) << joined.status().ToString();
    EXPECT_EQ(joined->tensors.front().name, "a.weight");
    EXPECT_EQ(joined->tensors.front().shape, (std::vector<int64_t>{3, 64}));
    EXPECT_THAT(FirstRow(*joined), Each(0.5f * scale));
  }
  const auto joined =
      Join(E4M3Parts({"a.weight_scale", "F32", {3, 1}, 0, {0x3f800000, 0x40000000, 0x40800000}}), kE4M3);
  ASSERT_TRUE(joined.ok()) << joined.status().ToString();
  std::vector<std::byte> blocks;
  const FileTensor tensor = Whole(joined->tensors.front(), &blocks);
  for (int64_t r = 0; r < 3; ++r) {
    std::vector<float> row(64);
    ReadFileRow(tensor.data, r, row.data());
    EXPECT_THAT(row, Each(0.5f * static_cast<float>(1 << r)));
  }
}

TEST_F(PackedTensors, E4M3HasScalesPerBlock) {
  const PackedFormat blocks{.kind = Kind::kE4M3, .block = ScaleBlock{2, 32}};
  const auto joined = Join({{"a.weight", "F8_E4M3", {3, 64}, 0x30},
                            {"a.weight_scale_inv", "F32", {2, 2}, 0, {0x3f800000, 0x40000000, 0x40800000, 0x41000000}}},
                           blocks);
  ASSERT_TRUE(joined.ok()) << joined.status().ToString();
  std::vector<std::byte> bytes;
  const FileTensor tensor = Whole(joined->tensors.front(), &bytes);
  for (int64_t r = 0; r < 3; ++r) {
    std::vector<float> row(64);
    ReadFileRow(tensor.data, r, row.data());
    for (size_t c = 0; c < 64; ++c)
      EXPECT_EQ(row[c], 0.5f * static_cast<float>(1 << (2 * (r / 2) + (c >= 32 ? 1 : 0))));
  }
}

TEST_F(PackedTensors, DropsInputAndCacheScales) {
  std::vector<Part> parts = E4M3Parts({"a.weight_scale", "F16", {1}, kOne});
  for (const char* name : {"a.input_scale", "a.input_scale_ub", "b.k_scale", "b.v_scale"}) {
    parts.push_back({name, "F32", {1}});
  }
  parts.push_back({"c.weight", "F16", {3, 2}});  // not quantized
  const auto joined = Join(parts, kE4M3);
  ASSERT_TRUE(joined.ok()) << joined.status().ToString();
  ASSERT_EQ(joined->tensors.size(), 2u);
  EXPECT_EQ(joined->tensors.back().name, "c.weight");
  EXPECT_TRUE(joined->unsupported.empty());
}

TEST_F(PackedTensors, RefusesE4M3WithInvalidScales) {
  const auto damaged = StatusCode::kCorruption, invalid = StatusCode::kInvalidArgument;
  ExpectRefused(E4M3Parts({"b.weight_scale", "F16", {1}}), kE4M3, damaged, "'a.weight_scale' is missing");
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{2}, {4, 1}, {1, 3}, {3, 2}, {3, 1, 2}}) {
    ExpectRefused(E4M3Parts({"a.weight_scale", "F16", shape, kOne}), kE4M3, damaged, "expected [3, 1]");
  }
  // NaN, infinity, negative, and so large that 448 times it overflows.
  for (const uint32_t bits : {0x7fc00000u, 0x7f800000u, 0xff800000u, 0xbf800000u, 0x7f000000u}) {
    ExpectRefused(E4M3Parts({"a.weight_scale", "F32", {3}, 0, {0x3f800000, 0x3f800000, static_cast<int32_t>(bits)}}),
                  kE4M3, damaged, "'a.weight_scale' has a scale of ");
  }
  ExpectRefused({{"a.weight", "F8_E4M3", {3, 33}}, {"a.weight_scale", "F16", {1}}}, kE4M3, invalid,
                "'a.weight' has 33 inputs, not a multiple of 32");
  ExpectRefused({{"a.weight", "F8_E4M3", {96}}, {"a.weight_scale", "F16", {1}}}, kE4M3, damaged,
                "'a.weight' has 1 dimensions");
}

}  // namespace
}  // namespace ringside
