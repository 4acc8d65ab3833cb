// Two turns of one conversation on a model, with drafts and without. THREAD: tests only.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/engine/engine_harness.h"
#include "tests/engine/model/model_run.h"

namespace ringside {

struct DraftedAnswer {
  std::vector<TokenId> ids;
  std::vector<float> logprobs;
  DraftReport drafts;
};

/// The answers of both turns; the window moves in the first one, unless the model's positions end before. The clock
/// does not move, so drafts always pay unless none are accepted.
inline std::vector<DraftedAnswer> AnswerTwice(Model& model, Speculation speculation, double temperature) {
  constexpr RingWindow kWindow{4, 60, Eviction::kTurn};
  const LetterTokenizer tokenizer(model.spec().vocab);
  const ManualClock clock;
  EngineOptions options{.slots = 2, .memory_len = kWindow.memory_len, .pinned_max = 8, .prefill_chunk = 32};
  options.session_len = model.spec().learned_positions ? model.spec().trained_context : 400;
  options.speculation = speculation;
  const auto engine = std::move(Engine::Start(model, tokenizer, options, {}, clock).value());
  std::vector<TokenId> tokens = ScatteredIds(12, 4, 7);  // few distinct ones, so that n-grams come again
  const int64_t most = std::min<int64_t>(120, (options.session_len - std::ssize(tokens)) / 2 - 4);
  std::vector<DraftedAnswer> answers;
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

}  // namespace ringside
