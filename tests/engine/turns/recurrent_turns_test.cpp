// Turns of a network with recurrent layers, in slots: the recurrent hash network turns every wrong boundary, stale row
// of the tail and lost token into a wrong next token.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <random>

#include "tests/engine/engine_harness.h"
#include "tests/engine/hash_network.h"

namespace ringside {
namespace {

// Without or with run-ahead.
class RecurrentTurns : public ::testing::TestWithParam<bool> {
 protected:
  static constexpr RingWindow kWindow{4, 400, Eviction::kToken};

  void Start(EngineOptions options) {
    options.memory_len = 2000;
    options.pinned_max = 8;
    options.kv_dtype = DType::kF32;
    auto started = Engine::Start(network_, tokenizer_, options);
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    engine_ = std::move(*started);
  }
  /// Runs a turn and checks every token against the plain computation.
  TurnEnd Run(TimelineId timeline, const std::vector<TokenId>& tokens, int64_t max_tokens,
              std::vector<int64_t> starts = {}, RingWindow window = kWindow) {
    const SubmittedTurn turn = GreedyTurn(next_turn_++, timeline, tokens, starts, window, max_tokens);
    const Status accepted = engine_->Submit(turn.request);
    EXPECT_TRUE(accepted.ok()) << accepted.ToString();
    TurnEnd end = accepted.ok() ? turn.sink->Wait() : TurnEnd{};
    EXPECT_NE(end.reason, FinishReason::kError) << end.error.ToString();
    ExpectRight(tokens, end.output, starts, window);
    return end;
  }
  static void ExpectRight(std::vector<TokenId> tokens, const std::vector<TokenId>& output,
                          const std::vector<int64_t>& starts, RingWindow window) {
    for (const TokenId id : output) {
      ASSERT_EQ(id, HashNetwork::Expected(tokens, starts, window, /*recurrent=*/true)) << "after " << tokens.size();
      tokens.push_back(id);
    }
  }

  std::unique_ptr<Backend> backend_ = std::move(*MakeCpuBackend({.threads = 1}));
  HashNetwork network_{*backend_, GetParam(), /*branches=*/true, /*recurrent=*/true};
  LetterTokenizer tokenizer_{HashNetwork::kVocab};
  std::unique_ptr<Engine> engine_;
  TurnId next_turn_ = 1;
};

INSTANTIATE_TEST_SUITE_P(Both, RecurrentTurns, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "RunAhead" : "InStep"; });

TEST_P(RecurrentTurns, TwentyTurnsComputeNewTokensOnly) {
  Start({.slots = 2, .prefill_chunk = 48});
  std::vector<TokenId> tokens;
  for (uint32_t turn = 0; turn < 20; ++turn) {
    const std::vector<TokenId> input = Tokens(1 + turn * 7 % 40, turn);
    const auto known = static_cast<int64_t>(tokens.size());
    tokens.insert(tokens.end(), input.begin(), input.end());
    const TurnEnd end = Run(1, tokens, 1 + turn % 9);
    if (turn > 0) {
      EXPECT_LE(end.report.tokens_computed, std::ssize(input) + 1);  // the last token of the answer had no row yet
      EXPECT_GE(end.report.tokens_reused, known - 1);
    }
    tokens.insert(tokens.end(), end.output.begin(), end.output.end());
  }
}

TEST_P(RecurrentTurns, RewindsToEveryPosition) {
  Start({.slots = 2, .prefill_chunk = 48});
  const std::vector<TokenId> tokens = Tokens(330, 1);
  for (size_t length = tokens.size(); length > 0; length -= std::min<size_t>(length, 3)) {
    Run(1, tokens, 2);
    std::vector<TokenId> edited(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(length));
    edited.push_back((tokens[length % tokens.size()] + 1) % HashNetwork::kVocab);
    const TurnEnd end = Run(1, edited, 2);
    EXPECT_LE(end.report.tokens_reused, static_cast<int64_t>(length));
    if (HasFailure()) FAIL() << length;
  }
}

TEST_P(RecurrentTurns, AnAnswerIsSampledAgainFromItsBoundary) {
  Start({.slots = 2, .prefill_chunk = 512, .step_tokens = 512});
  const std::vector<TokenId> tokens = Tokens(300, 2);
  Run(1, tokens, 200);
  const TurnEnd end = Run(1, tokens, 200);
  EXPECT_EQ(end.report.source, CacheSource::kSlot);
  EXPECT_EQ(end.report.tokens_reused, 256);
  EXPECT_EQ(end.report.tokens_computed, 300 - 256);
  EXPECT_EQ(end.report.tokens_replayed, 299 - 256);
}

TEST_P(RecurrentTurns, DeletedAndChangedMessagesContinueFromTheBoundaryBefore) {
  Start({.slots = 2, .prefill_chunk = 48});
  std::vector<TokenId> tokens = Tokens(330, 12);
  const std::vector<int64_t> starts = {0, 150, 200};
  Run(1, tokens, 20, starts);
  tokens.erase(tokens.begin() + 150, tokens.begin() + 200);
  const TurnEnd deleted = Run(1, tokens, 20, {0, 150});
  EXPECT_EQ(deleted.report.tokens_reused, 128);
  EXPECT_EQ(deleted.report.tokens_replayed, 150 - 128);
  tokens[5] = (tokens[5] + 1) % HashNetwork::kVocab;  // another system message
  const TurnEnd changed = Run(1, tokens, 20, {0, 150});
  EXPECT_EQ(changed.report.tokens_reused, 0);
  EXPECT_EQ(changed.report.tokens_replayed, 5);
  EXPECT_EQ(changed.report.tokens_computed, 280);
  EXPECT_EQ(changed.report.source, CacheSource::kRecomputed);
}

TEST_P(RecurrentTurns, AWindowThatSlidCarriesEveryToken) {
  Start({.slots = 2, .prefill_chunk = 48});
  const RingWindow window{4, 40, Eviction::kTurn};
  std::vector<TokenId> tokens = Tokens(500, 3);
  const std::vector<int64_t> starts = {0, 100, 230, 490};
  Run(1, tokens, 30, starts, window);
  tokens[499] = (tokens[499] + 1) % HashNetwork::kVocab;
  // The rows and the boundary of the edited token's window may be gone: a rebuild replays everything, exactly.
  Run(1, tokens, 3, starts, window);
  tokens[60] = (tokens[60] + 1) % HashNetwork::kVocab;
  const TurnEnd end = Run(1, tokens, 3, starts, window);
  EXPECT_EQ(end.report.tokens_reused + end.report.tokens_computed, 500);
}

TEST_P(RecurrentTurns, AnotherConversationContinuesFromASharedBoundary) {
  Start({.slots = 4, .prefill_chunk = 48});
  const std::vector<TokenId> system = Tokens(200, 4);
  std::vector<TokenId> first = system, second = system;
  const std::vector<TokenId> one = Tokens(90, 5), two = Tokens(90, 6);
  first.insert(first.end(), one.begin(), one.end());
  second.insert(second.end(), two.begin(), two.end());
  const std::vector<int64_t> starts = {0, 200};
  Run(1, first, 40, starts);
  const TurnEnd end = Run(2, second, 5, starts);
  EXPECT_EQ(end.report.tokens_reused, 192) << "the boundary before the message at which the histories diverge";
  EXPECT_EQ(engine_->stats().tokens_shared, 192u);
}

TEST_P(RecurrentTurns, AThirdConversationFindsABoundaryWhereTwoDiverged) {
  Start({.slots = 4, .prefill_chunk = 48});
  const std::vector<TokenId> common = Tokens(700, 4);
  const auto with = [&](uint32_t seed) {
    std::vector<TokenId> tokens = common;
    const std::vector<TokenId> own = Tokens(600, seed);
    tokens.insert(tokens.end(), own.begin(), own.end());
    return tokens;
  };
  const RingWindow window{4, 2000, Eviction::kToken};
  Run(1, with(5), 2, {}, window);
  EXPECT_LT(Run(2, with(6), 2, {}, window).report.tokens_reused, 640) << "no boundary was there before";
  EXPECT_EQ(Run(3, with(7), 2, {}, window).report.tokens_reused, 640);
}

TEST_P(RecurrentTurns, AWaitingTurnFindsABoundaryAtTheEndOfTheCommonPrompt) {
  std::promise<void> submitted;
  network_.OnStep([wait = submitted.get_future().share()] { wait.wait(); });
  Start({.slots = 4, .prefill_chunk = 256, .step_tokens = 256});
  const std::vector<TokenId> common = Tokens(330, 4);
  std::vector<SubmittedTurn> turns;
  for (TimelineId timeline = 1; timeline <= 3; ++timeline) {
    std::vector<TokenId> tokens = common;
    tokens.insert(tokens.end(), 200, static_cast<TokenId>(timeline));
    turns.push_back(GreedyTurn(next_turn_++, timeline, tokens, {}, kWindow, 2));
    ASSERT_TRUE(engine_->Submit(turns.back().request).ok());
  }
  submitted.set_value();
  for (const SubmittedTurn& turn : turns) {
    const TurnEnd end = turn.sink->Wait();
    ExpectRight(turn.request.tokens, end.output, {}, kWindow);
    EXPECT_EQ(end.report.tokens_reused, turn.request.timeline == 1 ? 0 : 320);
  }
}

TEST_P(RecurrentTurns, ManyAnswersToOnePrompt) {
  Start({.slots = 4, .prefill_chunk = 48});
  const std::vector<TokenId> tokens = Tokens(290, 7);
  std::vector<SubmittedTurn> turns;
  for (TimelineId timeline = 1; timeline <= 4; ++timeline) {
    turns.push_back(GreedyTurn(next_turn_++, timeline, tokens, {}, kWindow, 80));
    turns.back().request.may_branch = true;
    ASSERT_TRUE(engine_->Submit(turns.back().request).ok());
  }
  for (const SubmittedTurn& turn : turns) ExpectRight(tokens, turn.sink->Wait().output, {}, kWindow);
}

TEST_P(RecurrentTurns, BeamsAreRefusedByName) {
  Start({.slots = 8});
  SubmittedTurn turn = GreedyTurn(1, 1, Tokens(30, 8), {}, kWindow, 5);
  turn.request.sampling.beams.width = 3;
  const Status refused = engine_->Submit(turn.request);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("recurrent layers"), std::string::npos) << refused.message();
}

TEST_P(RecurrentTurns, RandomTurnsEqualThePlainComputation) {
  for (uint32_t seed = 0; seed < 6; ++seed) {
    std::mt19937 random(seed);
    Start({.slots = 3,
           .prefill_chunk = 16 + static_cast<int64_t>(random() % 100),
           .step_tokens = 128,
           .state_slots = 2 + static_cast<int64_t>(random() % 4)});
    if (HasFatalFailure()) return;
    struct Conversation {
      std::vector<TokenId> tokens;
      std::vector<int64_t> starts;
      RingWindow window;
    };
    std::vector<Conversation> conversations(5);
    for (Conversation& c : conversations) {
      c.tokens = Tokens(150, seed);  // a common prefix
      c.starts = {0};
      c.window = {4, random() % 3 == 0 ? 64 : 400, random() % 2 == 0 ? Eviction::kTurn : Eviction::kToken};
    }
    for (int step = 0; step < 60; ++step) {
      const TimelineId timeline = static_cast<TimelineId>(1 + random() % conversations.size());
      Conversation& c = conversations[static_cast<size_t>(timeline - 1)];
      const auto cut = [&](size_t length) {
        c.tokens.resize(length);
        std::erase_if(c.starts, [&](int64_t start) { return start >= std::ssize(c.tokens); });
      };
      switch (random() % 6) {
        case 0:
          cut(1 + random() % c.tokens.size());
          break;
        case 1:
          c.tokens[random() % c.tokens.size()] = static_cast<TokenId>(random() % HashNetwork::kVocab);
          break;
        case 2:
          c = conversations[random() % conversations.size()];  // a fork
          break;
        default:
          break;
      }
      c.starts.push_back(std::ssize(c.tokens));
      for (size_t n = 1 + random() % 60; n > 0; --n) {
        c.tokens.push_back(static_cast<TokenId>(random() % HashNetwork::kVocab));
      }
      const TurnEnd end = Run(timeline, c.tokens, static_cast<int64_t>(random() % 70), c.starts, c.window);
      EXPECT_LE(end.report.tokens_reused + end.report.tokens_computed, std::ssize(c.tokens));
      if (HasFailure()) FAIL() << "seed " << seed << ", step " << step;
      c.tokens.insert(c.tokens.end(), end.output.begin(), end.output.end());
      if (c.tokens.size() > 900) cut(200);
    }
    engine_.reset();
  }
}

}  // namespace
}  // namespace ringside
