// Models with dummy weights: a config.json is enough, the network does not depend on the number of ranks, and its
// output is readable text.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "engine/text/tokenizer.h"
#include "tests/engine/model/model_run.h"
#include "tests/kernels/devices.h"

namespace ringside {
namespace {

/// A folder with only the config.json of a golden model.
class DummyModel : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/dummy_" + GetParam();
    std::filesystem::create_directories(folder_);
    std::filesystem::copy_file(GoldenFolder(GetParam()) + "/config.json", folder_ + "/config.json",
                               std::filesystem::copy_options::overwrite_existing);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
};
INSTANTIATE_TEST_SUITE_P(All, DummyModel, ::testing::Values("llama", "llama_biases", "qwen3", "gpt2"));

struct Made {
  Made(const std::string& folder, int ranks, LoadFormat format = LoadFormat::kDummy)
      : backends(testing::MakeTestRanks("cpu", {.tensor = ranks})) {
    std::vector<Backend*> all;
    for (const auto& backend : backends) all.push_back(backend.get());
    auto loaded = Model::Load(folder, all, 1, format);
    status = loaded.status();
    if (loaded.ok()) model = std::move(*loaded);
  }
  std::vector<std::unique_ptr<Backend>> backends;
  std::unique_ptr<Model> model;
  Status status;
};

// Experts in separate tensors and in joint ones; a matrix of latents that becomes two, one of them transposed;
// recurrent layers. All ranks have parts of the same network.
TEST(DummyFamilies, AreTheSameOnTwoRanks) {
  for (const std::string family : {"mixtral", "gpt_oss", "deepseek_v3", "qwen3_next", "kimi_linear", "nemotron_h"}) {
    const std::string folder = ::testing::TempDir() + "/dummy_" + family;
    std::filesystem::create_directories(folder);
    std::filesystem::copy_file(GoldenFolder("families/" + family) + "/config.json", folder + "/config.json",
                               std::filesystem::copy_options::overwrite_existing);
    const Made made(folder, 1), shared(folder, 2);
    ASSERT_TRUE(made.model && shared.model) << made.status.ToString() << shared.status.ToString();
    OwnCache cache(*made.model, {0, 64, Eviction::kToken}, 7), divided(*shared.model, {0, 64, Eviction::kToken}, 7);
    const std::vector<float> want = RunAll(*made.model, cache.get(), ScatteredIds(20, 96), 7);
    for (const float logit : want) ASSERT_TRUE(std::isfinite(logit)) << family;
    EXPECT_LT(RelativeError(RunAll(*shared.model, divided.get(), ScatteredIds(20, 96), 7), want), 1e-5) << family;
    std::filesystem::remove_all(folder);
  }
}

// As the file would be: matrices in E4M3 with a scale per block, which a GPU keeps at 8 bits; tables and vectors not.
TEST(DummyFamilies, AreInTheBlocksOfTheirConfig) {
  const std::string folder = ::testing::TempDir() + "/dummy_blocks";
  std::filesystem::create_directories(folder);
  const std::string shape = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_act": "silu",
    "rms_norm_eps": 1e-5, "max_position_embeddings": 256, "hidden_size": 512, "intermediate_size": 768,
    "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 96)";
  const auto config = [&](const std::string& more) { std::ofstream(folder + "/config.json") << shape << more << "}"; };
  const std::string fp8 = R"(, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]})";
  const auto logits = [](Model& model, DType type) {
    OwnCache cache(model, {0, 64, Eviction::kToken}, 7, type);
    return RunAll(model, cache.get(), ScatteredIds(20, 96), 7);
  };
  config("");
  const Made plain(folder, 1);
  config(fp8);
  const Made blocks(folder, 1), shared(folder, 2);
  ASSERT_TRUE(plain.model && blocks.model && shared.model) << blocks.status.ToString() << shared.status.ToString();
  EXPECT_NE(blocks.model->fingerprint(), plain.model->fingerprint());
  const double elements = 2.0 * (512 * (512 + 2 * 256 + 512) + 3 * 512 * 768);
  EXPECT_NEAR(static_cast<double>(plain.model->weight_bytes() - blocks.model->weight_bytes()), elements * (4 - 9 / 8.0),
              0.02 * elements);
  const std::vector<float> want = logits(*blocks.model, DType::kF32);
  EXPECT_LT(RelativeError(logits(*shared.model, DType::kF32), want), 1e-5);
  const auto gpu = testing::MakeDevice("cuda_bf16");
  if (gpu == nullptr) GTEST_SKIP() << "no GPU here";
  auto there = Model::Load(folder, {{gpu.get()}}, 1, LoadFormat::kDummy);
  config("");
  auto plain_there = Model::Load(folder, {{gpu.get()}}, 1, LoadFormat::kDummy);
  ASSERT_TRUE(there.ok() && plain_there.ok()) << there.status().ToString();
  EXPECT_NEAR(static_cast<double>((*plain_there)->weight_bytes() - (*there)->weight_bytes()), elements,
              0.02 * elements);
  EXPECT_LT(NormError(logits(**there, DType::kBF16), want), 0.03);
}

TEST_P(DummyModel, IsTheSameForEveryNumberOfRanks) {
  const Made one(folder_, 1), two(folder_, 2);
  ASSERT_TRUE(one.model && two.model) << one.status.ToString() << two.status.ToString();
  EXPECT_EQ(one.model->fingerprint(), two.model->fingerprint());
  const std::vector<TokenId> ids = ScatteredIds(20, one.model->spec().vocab);
  const RingWindow window{0, 64, Eviction::kToken};
  OwnCache alone(*one.model, window, 7), shared(*two.model, window, 7);
  const std::vector<float> want = RunAll(*one.model, alone.get(), ids, 7);
  EXPECT_LT(RelativeError(RunAll(*two.model, shared.get(), ids, 7), want), 1e-5);
  double squares = 0;
  for (const float logit : want) {
    ASSERT_TRUE(std::isfinite(logit));
    squares += double{logit} * logit;
  }
  EXPECT_GT(squares, 0);
}

TEST_P(DummyModel, ReportsThatItIsADummy) {
  const Made dummy(folder_, 1), real(GoldenFolder(GetParam()), 1, LoadFormat::kAuto);
  ASSERT_TRUE(dummy.model && real.model);
  EXPECT_NE(dummy.model->fingerprint(), real.model->fingerprint());
  EXPECT_EQ(Made(folder_, 1, LoadFormat::kAuto).model, nullptr) << "without being asked for";
}

TEST_P(DummyModel, HasTextWithoutATokenizer) {
  const Made dummy(folder_, 1);
  ASSERT_TRUE(dummy.model);
  const TokenizerData& data = dummy.model->tokenizer_data();
  EXPECT_EQ(static_cast<int64_t>(data.tokens.size()), dummy.model->spec().vocab);
}

TEST(MadeUpTokenizerTest, BytesAreTokens) {
  const auto made = MakeTokenizer(DummyTokenizer(1000));
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  const std::string text =
      "Gr\xC3\xBC\xC3\x9F"
      "e, 2 of them\n";
  const std::vector<TokenId> ids = (*made)->EncodeAll(std::vector<TextPiece>{{.text = text}});
  EXPECT_EQ(ids.size(), text.size());
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(ids[i], static_cast<uint8_t>(text[i]));
}

}  // namespace
}  // namespace ringside
