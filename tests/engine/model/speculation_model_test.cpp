// Speculative decoding on models of many families: answers and log probabilities with drafts equal those without, bit
// for bit. The clock does not move, so drafts always pay unless none are accepted.
#include <gtest/gtest.h>

#include "tests/engine/engine_harness.h"
#include "tests/engine/model/family_names.h"
#include "tests/engine/model/model_run.h"

namespace ringside {
namespace {

// Windowed, latent, expert, shared-key and recurrent layers; learned positions and ALiBi.
constexpr const char* kSpeculating[] = {"gemma3",     "gemma3n_text", "deepseek_v3", "gpt_oss",          "opt",
                                        "bloom",      "lfm2",         "qwen3_next",  "granitemoehybrid", "falcon_h1",
                                        "kimi_linear"};

class SpeculatingModels : public ::testing::TestWithParam<const char*> {
 protected:
  static constexpr RingWindow kWindow{4, 60, Eviction::kTurn};
  struct Answer {
    std::vector<TokenId> ids;
    std::vector<float> logprobs;
    DraftReport drafts;
  };
  /// Two turns of one conversation.
  std::vector<Answer> Run(Speculation speculation, double temperature) {
    const auto backend = MakeTestBackend(2);
    const auto model = std::move(Model::Load(FamilyFolder(GetParam()), *backend).value());
    const LetterTokenizer tokenizer(model->spec().vocab);
    const ManualClock clock;
    EngineOptions options{.slots = 2, .memory_len = kWindow.memory_len, .pinned_max = 8, .prefill_chunk = 32};
    options.session_len = model->spec().learned_positions ? model->spec().trained_context : 400;
    options.speculation = speculation;
    const auto engine = std::move(Engine::Start(*model, tokenizer, options, {}, clock).value());
    std::vector<TokenId> tokens = ScatteredIds(12, 4, 7);  // few distinct ones, so that n-grams come again
    const int64_t most = std::min<int64_t>(120, (options.session_len - std::ssize(tokens)) / 2 - 4);
    std::vector<Answer> answers;
    for (TurnId turn = 1; turn <= 2; ++turn) {
      SubmittedTurn running = GreedyTurn(turn, 1, tokens, {}, kWindow, most);
      running.request.sampling.temperature = temperature;
      running.request.sampling.logprobs = 2;
      running.request.sampling.top_k = 3;
      EXPECT_TRUE(engine->Submit(running.request).ok());
      const TurnEnd end = running.sink->Wait();
      EXPECT_EQ(end.reason, FinishReason::kLength) << end.error.ToString();
      answers.push_back({running.sink->ids(), running.sink->logprobs(), end.drafts});
      tokens.insert(tokens.end(), end.output.begin(), end.output.end());
      tokens.push_back(3);
    }
    return answers;
  }
};

INSTANTIATE_TEST_SUITE_P(Families, SpeculatingModels, ::testing::ValuesIn(kSpeculating),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(SpeculatingModels, AnswersEqualThoseWithoutDrafts) {
  for (const double temperature : {0.0, 0.8}) {
    const std::vector<Answer> plain = Run(Speculation::kOff, temperature),
                              drafting = Run(Speculation::kNgram, temperature);
    int64_t drafted = 0;
    for (size_t turn = 0; turn < plain.size(); ++turn) {
      EXPECT_EQ(drafting[turn].ids, plain[turn].ids);
      EXPECT_EQ(drafting[turn].logprobs, plain[turn].logprobs);
      EXPECT_EQ(plain[turn].drafts.drafted, 0);
      drafted += drafting[turn].drafts.drafted;
    }
    if (temperature == 0) {
      EXPECT_GT(drafted, 0);
    }
  }
}

}  // namespace
}  // namespace ringside
