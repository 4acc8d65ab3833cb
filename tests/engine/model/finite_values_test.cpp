// Weights that are NaN or infinite: detected in every type, and refused at load with the tensor's name.
#include "engine/model/weights/finite_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "engine/model/model.h"
#include "tests/engine/files/gguf_file_writer.h"
#include "tests/engine/model/model_run.h"

namespace ringside {
namespace {

using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

template <class Word>
void Put(Word word, size_t at, std::vector<std::byte>* bytes) {
  std::memcpy(bytes->data() + at, &word, sizeof(Word));
}

TEST(FiniteValues, FloatsOfEverySizeAtEveryPlace) {
  constexpr size_t kCount = 77;
  for (size_t i = 0; i < kCount; ++i) {
    std::vector<std::byte> words(4 * kCount), halves(2 * kCount);
    for (const float bad : {kNaN, -kNaN, kInfinity, -kInfinity}) {
      Put(bad, 4 * i, &words);
      EXPECT_FALSE(AreFinite(DType::kF32, words)) << i;
    }
    Put(-std::numeric_limits<float>::max(), 4 * i, &words);
    EXPECT_TRUE(AreFinite(DType::kF32, words)) << i;
    for (const uint16_t bad : {0x7c00, 0xfc00, 0x7e00, 0xfc01}) {
      Put(bad, 2 * i, &halves);
      EXPECT_FALSE(AreFinite(DType::kF16, halves)) << i;
      EXPECT_TRUE(AreFinite(DType::kBF16, halves)) << i;  // a large number
    }
    for (const uint16_t bad : {0x7f80, 0xff80, 0x7fc0, 0xff81}) {
      Put(bad, 2 * i, &halves);
      EXPECT_FALSE(AreFinite(DType::kBF16, halves)) << i;
    }
    Put(uint16_t{0x7bff}, 2 * i, &halves);
    EXPECT_TRUE(AreFinite(DType::kF16, halves)) << i;
  }
  EXPECT_TRUE(AreFinite(DType::kF32, {}));
}

struct Scales {
  DType dtype;
  std::vector<size_t> places;  // offsets of a block's float16 scales
};

TEST(FiniteValues, ScalesOfEveryBlockFormat) {
  const Scales formats[] = {{DType::kQ8_0, {0}},    {DType::kQ4_0, {0}},    {DType::kQ4_1, {0, 2}},
                            {DType::kQ5_0, {0}},    {DType::kQ5_1, {0, 2}}, {DType::kQ4_K, {0, 2}},
                            {DType::kQ5_K, {0, 2}}, {DType::kQ6_K, {208}},  {DType::kQ2_K, {80, 82}},
                            {DType::kQ3_K, {108}},  {DType::kIQ4_NL, {0}},  {DType::kIQ4_XS, {0}},
                            {DType::kQ4_Z, {0}},    {DType::kIQ2_XXS, {0}}, {DType::kIQ2_XS, {0}},
                            {DType::kIQ2_S, {0}},   {DType::kIQ3_XXS, {0}}, {DType::kIQ3_S, {0}},
                            {DType::kIQ1_S, {0}},   {DType::kTQ1_0, {52}},  {DType::kTQ2_0, {64}}};
  for (const Scales& format : formats) {
    const auto block = static_cast<size_t>(Traits(format.dtype).block_bytes);
    for (size_t at = 0; at + 2 <= block; ++at) {
      std::vector<std::byte> bytes(3 * block);
      Put(uint16_t{0x7c00}, block + at, &bytes);
      // Anywhere else these bits are integers.
      const bool scale = std::ranges::find(format.places, at) != format.places.end();
      const bool half_of_one = std::ranges::any_of(format.places, [&](size_t p) { return at == p + 1 || at + 1 == p; });
      if (half_of_one) continue;
      EXPECT_EQ(AreFinite(format.dtype, bytes), !scale) << Traits(format.dtype).name << " " << at;
    }
  }
}

TEST(FiniteValues, BytesThatAreExponentsOrNumbers) {
  std::vector<std::byte> mxfp4(2 * 17, std::byte{0xff});
  EXPECT_FALSE(AreFinite(DType::kMXFP4, mxfp4));
  mxfp4[0] = mxfp4[17] = std::byte{252};
  EXPECT_TRUE(AreFinite(DType::kMXFP4, mxfp4));
  mxfp4[17] = std::byte{253};
  EXPECT_FALSE(AreFinite(DType::kMXFP4, mxfp4));
  for (size_t at = 4; at < 36; ++at) {
    std::vector<std::byte> e4m3(36, std::byte{0x7e});
    Put(1.0f, 0, &e4m3);
    EXPECT_TRUE(AreFinite(DType::kScaledE4M3, e4m3));
    e4m3[at] = std::byte{0xff};
    EXPECT_FALSE(AreFinite(DType::kScaledE4M3, e4m3)) << at;
    e4m3[at] = std::byte{0};
    Put(kNaN, 0, &e4m3);
    EXPECT_FALSE(AreFinite(DType::kScaledE4M3, e4m3));
  }
}

TEST(FiniteValues, HalvesInFourParts) {
  for (size_t part = 0; part < 4; ++part) {
    std::vector<std::byte> bytes(2 * 56);
    for (size_t i = 2; i < 4; ++i) bytes[56 + 49 + 2 * i] = std::byte{static_cast<uint8_t>(i == 3 ? 0x70 : 0xc0)};
    EXPECT_FALSE(AreFinite(DType::kIQ1_M, bytes));  // 0x7c00
    bytes[56 + 49 + 2 * 3] = std::byte{0x60};
    bytes[part] = std::byte{0xff};
    EXPECT_TRUE(AreFinite(DType::kIQ1_M, bytes)) << part;
  }
}

TEST(FiniteValues, ScalesInE4M3AndFactors) {
  for (const DType type : {DType::kNVFP4, DType::kScaledNVFP4}) {
    const size_t first = type == DType::kNVFP4 ? 0 : 4, block = first + 36;
    for (size_t at = first; at < first + 4; ++at) {
      for (const int scale : {0x00, 0x7e, 0x7f, 0x80, 0xff}) {
        std::vector<std::byte> bytes(2 * block, std::byte{0x7e});
        if (first > 0) Put(1.0f, 0, &bytes), Put(1.0f, block, &bytes);
        bytes[block + at] = static_cast<std::byte>(scale);
        EXPECT_EQ(AreFinite(type, bytes), scale <= 0x7e) << at << " " << scale;
      }
    }
  }
  for (const DType type : {DType::kScaledNVFP4, DType::kScaledI8}) {
    for (const float factor : {kNaN, kInfinity, -kInfinity, 3e38f}) {
      std::vector<std::byte> bytes(static_cast<size_t>(Traits(type).block_bytes), std::byte{0x7e});
      Put(factor, 0, &bytes);
      EXPECT_FALSE(AreFinite(type, bytes)) << factor;
    }
  }
}

// A one-layer llama whose tensor `bad` ends in `value`; q, k and v in float16, the output in Q8_0.
GgufFileWriter Tiny(const std::string& bad, float value) {
  GgufFileWriter writer;
  writer.String("general.architecture", "llama");
  const std::pair<const char*, uint32_t> keys[] = {{"block_count", 1},          {"context_length", 64},
                                                   {"embedding_length", 32},    {"feed_forward_length", 32},
                                                   {"attention.head_count", 2}, {"attention.head_count_kv", 2}};
  for (const auto& [key, number] : keys) writer.U32(std::string("llama.") + key, number);
  writer.F32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  const auto number = [&](const std::string& name, size_t i, size_t count) {
    return name == bad && i + 1 == count ? value : 0.5f;
  };
  const auto half = [](float x) { return static_cast<uint16_t>(x == 0.5f ? 0x3800 : std::isnan(x) ? 0x7e00 : 0x7c00); };
  for (const std::string name : {"attn_norm", "ffn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate",
                                 "ffn_up", "ffn_down", "token_embd", "output_norm"}) {
    const bool vector = name.ends_with("norm");
    const std::string path = (name == "token_embd" || name == "output_norm" ? "" : "blk.0.") + name + ".weight";
    const size_t count = vector ? 32 : 32 * 32;
    std::string data;
    if (name == "attn_output") {
      for (size_t block = 0; block < count / 32; ++block) {
        data += GgufFileWriter::Bytes(half(number(name, block, count / 32)));
        data.append(32, '\1');
      }
    } else if (name.starts_with("attn_") && !vector) {
      for (size_t i = 0; i < count; ++i) data += GgufFileWriter::Bytes(half(number(name, i, count)));
    } else {
      for (size_t i = 0; i < count; ++i) data += GgufFileWriter::Bytes(number(name, i, count));
    }
    const uint32_t type = name == "attn_output" ? 8 : name.starts_with("attn_") && !vector ? 1 : 0;
    writer.Tensor(path, vector ? std::vector<uint64_t>{32} : std::vector<uint64_t>{32, 32}, type, data);
  }
  return writer;
}

TEST(FiniteValues, RefusesNonFiniteTensorsByName) {
  const auto backend = MakeTestBackend();
  const std::string path = ::testing::TempDir() + "/finite.gguf";
  const auto load = [&](const std::string& bad, float value) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << Tiny(bad, value).Finish();
    return Model::Load(path, *backend).status();
  };
  EXPECT_TRUE(load("", 0).ok()) << load("", 0).ToString();
  for (const float value : {kNaN, kInfinity, -kInfinity}) {
    for (const std::string name : {"attn_norm", "attn_q", "attn_output", "ffn_up", "token_embd", "output_norm"}) {
      const Status status = load(name, value);
      EXPECT_EQ(status.code(), StatusCode::kCorruption) << name << ": " << status.ToString();
      EXPECT_THAT(status.message(), HasSubstr(name + ".weight' holds a value that is not finite"));
    }
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace ringside
