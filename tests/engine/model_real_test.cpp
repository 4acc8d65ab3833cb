// SmolLM2-135M-Instruct against what a float32 reference recorded (tests/golden/smollm2_greedy.json).
#include <gtest/gtest.h>

#include <cstdlib>

#include "engine/flat_json.h"
#include "tests/engine/model_run.h"

namespace ringside {
namespace {

class RealModelForward : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("RINGSIDE_TEST_MODEL");
    if (path == nullptr) GTEST_SKIP() << "RINGSIDE_TEST_MODEL is not set";
    backend_ = MakeTestBackend(0);
    auto model = Model::Load(path, *backend_);
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    model_ = std::move(*model);
  }
  // The last token's logits.
  std::vector<float> Step(KvCache* cache, std::span<const TokenId> ids) {
    std::vector<float> logits(static_cast<size_t>(model_->spec().vocab));
    const StepPart part{cache, ids, StepPart::Logits::kLast};
    model_->Forward({&part, 1}, logits);
    return logits;
  }
  static TokenId Best(const std::vector<float>& logits) {
    return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Model> model_;
};

// Rounding activations to int8 moves the lead of a first choice by up to 1.1 (measured), so a first choice must hold
// where its lead is at least that large, and most others should.
TEST_F(RealModelForward, ChoosesTheReferencesTokensWhereTheirLeadIsClear) {
  const auto golden = FlatJson::ReadFile(GoldenFolder("smollm2_greedy.json"));
  ASSERT_TRUE(golden.ok()) << golden.status().ToString();
  int steps = 0, equal = 0, leading = 0;
  for (int c = 0; golden.value().Has("cases." + std::to_string(c)); ++c) {
    const std::string base = "cases." + std::to_string(c) + ".";
    const auto prompt = golden.value().Ints(base + "prompt_ids"), want = golden.value().Ints(base + "ids");
    ASSERT_TRUE(prompt && want);
    OwnCache cache(*model_, {4, 512, Eviction::kTurn}, 128, DType::kF16);
    std::vector<float> logits = Step(cache.get(), std::vector<TokenId>(prompt->begin(), prompt->end()));
    bool diverged = false;
    for (size_t i = 0; i < want->size(); ++i) {
      const double gap = golden.value().Float(base + "gaps." + std::to_string(i)).value();
      const auto expected = static_cast<TokenId>((*want)[i]);
      if (gap >= 1.0) {
        EXPECT_EQ(Best(logits), expected) << base << i << ", lead " << gap;
      }
      diverged |= Best(logits) != expected;
      ++steps;
      equal += Best(logits) == expected ? 1 : 0;
      leading += diverged ? 0 : 1;
      logits = Step(cache.get(), std::span(&expected, 1));
    }
  }
  EXPECT_EQ(steps, 140);
  EXPECT_GE(equal, 129) << "the reference's own int8 variants change 2.0 to 2.4 % of first choices";
  EXPECT_GE(leading, steps * 100 / 320);
  RecordProperty("equal", equal);
  RecordProperty("leading", leading);
}

TEST_F(RealModelForward, SaysWhatItIs) {
  const ModelSpec& spec = model_->spec();
  EXPECT_EQ(spec.architecture, "llama");
  EXPECT_EQ(spec.layers, 30);
  EXPECT_EQ(spec.hidden, 576);
  EXPECT_EQ(spec.heads, 9);
  EXPECT_EQ(spec.kv_heads, 3);
  EXPECT_EQ(spec.head_dim, 64);
  EXPECT_EQ(spec.ffn, 1536);
  EXPECT_EQ(spec.vocab, 49152);
  EXPECT_EQ(spec.trained_context, 8192);
  EXPECT_TRUE(spec.tied_head);
  EXPECT_NEAR(spec.inverse_frequencies[31], std::pow(100000.0, -62.0 / 64), 1e-12);
  EXPECT_EQ(model_->tokenizer_data().tokens.size(), 49152u);
  EXPECT_NE(model_->chat_template().find("<|im_start|>"), std::string::npos);
  EXPECT_GT(model_->weight_bytes(), 80'000'000);
}

}  // namespace
}  // namespace ringside
