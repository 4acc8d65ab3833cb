// SmolLM2-135M-Instruct against what a float32 reference recorded (tests/golden/smollm2_greedy.json).
#include <gtest/gtest.h>

#include <cstdlib>

#include "engine/files/flat_json.h"
#include "engine/sampling/sampling.h"
#include "tests/engine/model/model_run.h"
#include "tests/engine/sampling/sample_once.h"
#include "tests/sanitized.h"

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

// A cache that was lost is rebuilt from fewer windows than would be exact: another answer of equal quality.
TEST_F(RealModelForward, AReplayOfFourWindowsNearlyAlwaysChoosesTheSame) {
  constexpr int64_t kResumes = kSanitized ? 1 : 4;  // a row takes up to 50 times as long there
  constexpr int64_t kMemory = 256, kFirstResume = 1300, kPositions = 32;
  const RingWindow window{4, kMemory, Eviction::kToken};
  const auto vocab = static_cast<size_t>(model_->spec().vocab);
  // A text of the model's own: sampled, so that it does not repeat itself, and the same on every machine.
  std::vector<TokenId> text = {1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 2, 198};
  OwnCache kept(*model_, window, 128, DType::kF16);
  SamplingParams params;
  params.temperature = 0.9;
  params.seed = 7;
  Sampler sampler(params, model_->spec().vocab, text, {});
  std::vector<std::vector<float>> lead_logits;  // after token kFirstResume + i
  std::vector<float> logits = Step(kept.get(), text);
  while (static_cast<int64_t>(text.size()) < kFirstResume + kResumes * kPositions) {
    if (static_cast<int64_t>(text.size()) > kFirstResume) lead_logits.push_back(logits);
    const auto next = SampleOnce(sampler, logits, static_cast<int64_t>(text.size()));
    ASSERT_TRUE(next.ok());
    text.push_back(next->id);
    sampler.Append(next->id);
    logits = Step(kept.get(), std::span(text).last(1));
  }
  int same = 0, compared = 0;
  for (int64_t resume = kFirstResume; resume < kFirstResume + kResumes * kPositions; resume += kPositions) {
    OwnCache replayed(*model_, window, 128, DType::kF16);
    RunAll(*model_, replayed.get(), std::span(text).first(4), 4);
    replayed->ring().SkipTo(resume - 4 * kMemory);
    const auto replay = std::span(text).subspan(static_cast<size_t>(resume - 4 * kMemory), 4 * kMemory);
    for (size_t at = 0; at < replay.size(); at += 128) {
      const StepPart part{replayed.get(), replay.subspan(at, 128), StepPart::Logits::kNone};
      model_->Forward({&part, 1}, {});
    }
    const auto tail = std::span(text).subspan(static_cast<size_t>(resume), kPositions - 1);
    const std::vector<float> again = RunAll(*model_, replayed.get(), tail, 16);
    for (size_t i = 0; i < tail.size(); ++i, ++compared) {
      const std::vector<float>& want = lead_logits[static_cast<size_t>(resume - kFirstResume) + i];
      const std::vector<float> got(again.begin() + static_cast<ptrdiff_t>(i * vocab),
                                   again.begin() + static_cast<ptrdiff_t>((i + 1) * vocab));
      const TokenId best = Best(want), other = Best(got);
      same += best == other ? 1 : 0;
      EXPECT_LT(want[static_cast<size_t>(best)] - want[static_cast<size_t>(other)], 0.5) << resume << " + " << i;
    }
  }
  EXPECT_EQ(compared, kResumes * (kPositions - 1));
  // A share of many: of 31 positions alone a few near-ties are too much of it. How near they are is asserted above.
  const int least = kResumes > 1 ? (compared * 93 + 99) / 100 : 0;
  EXPECT_GE(same, least);
  RecordProperty("same", same);
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
  EXPECT_NEAR(spec.rotations.front().inverse_frequencies[31], std::pow(100000.0, -62.0 / 64), 1e-12);
  EXPECT_EQ(model_->tokenizer_data().tokens.size(), 49152u);
  EXPECT_NE(model_->chat_template().find("<|im_start|>"), std::string::npos);
  EXPECT_GT(model_->weight_bytes(), 80'000'000);
}

}  // namespace
}  // namespace ringside
