#include "engine/engine.h"

#include <gtest/gtest.h>

#include <future>
#include <random>
#include <thread>

#include "tests/engine/engine_harness.h"
#include "tests/engine/hash_network.h"

namespace ringside {
namespace {

constexpr RingWindow kWindow{4, 24, Eviction::kTurn};

// Each test runs twice: in step with the network, and with run-ahead, where a step is launched before the previous
// one's tokens are known.
class EngineTest : public ::testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<Engine> EngineOn(Network& network, EngineOptions options, int64_t memory_len) {
    options.memory_len = memory_len;
    options.pinned_max = 8;
    options.kv_dtype = DType::kF32;
    auto started = Engine::Start(network, tokenizer_, options);
    EXPECT_TRUE(started.ok()) << started.status().ToString();
    return started.ok() ? std::move(*started) : nullptr;
  }
  void Start(EngineOptions options, int64_t memory_len = kWindow.memory_len) {
    engine_ = EngineOn(network_, options, memory_len);
    ASSERT_NE(engine_, nullptr);
  }
  TurnEnd RunTurn(SubmittedTurn turn) {
    const Status accepted = engine_->Submit(turn.request);
    EXPECT_TRUE(accepted.ok()) << accepted.ToString();
    return accepted.ok() ? turn.sink->Wait() : TurnEnd{};
  }
  // Checks each generated token against the definition.
  static void ExpectRight(std::vector<TokenId> tokens, const std::vector<int64_t>& starts, const TurnEnd& end,
                          RingWindow window = kWindow) {
    for (const TokenId id : end.output) {
      ASSERT_EQ(id, HashNetwork::Expected(tokens, starts, window)) << "after " << tokens.size() << " tokens";
      tokens.push_back(id);
    }
  }

  std::unique_ptr<Backend> backend_ = std::move(*MakeCpuBackend({.threads = 1}));
  HashNetwork network_{*backend_, GetParam()};
  LetterTokenizer tokenizer_{HashNetwork::kVocab};
  std::unique_ptr<Engine> engine_;
};

INSTANTIATE_TEST_SUITE_P(All, EngineTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Ahead" : "InStep"; });

TEST_P(EngineTest, TurnComputesOnlyNewTokens) {
  Start({.slots = 2});
  std::vector<TokenId> tokens = Tokens(40, 1);
  const TurnEnd first = RunTurn(GreedyTurn(1, 7, tokens, {}, kWindow, 5));
  EXPECT_EQ(first.report.source, CacheSource::kNew);
  EXPECT_EQ(first.report.tokens_computed, 40);
  EXPECT_EQ(first.report.position, 45);
  EXPECT_EQ(first.reason, FinishReason::kLength);
  ExpectRight(tokens, {}, first);

  tokens.insert(tokens.end(), first.output.begin(), first.output.end());
  tokens.push_back(3);
  const TurnEnd second = RunTurn(GreedyTurn(2, 7, tokens, {}, kWindow, 5));
  EXPECT_EQ(second.report.source, CacheSource::kSlot);
  EXPECT_EQ(second.report.tokens_reused, 44);  // the last sampled token was never computed
  EXPECT_EQ(second.report.tokens_computed, 2);
  EXPECT_EQ(second.report.tokens_evicted, 51 - 1 - 24 + 1 - 4);
  ExpectRight(tokens, {}, second);
}

/// As in SentencePiece: a space precedes each letter, but not the first of an answer.
class SpacedLetters final : public LetterTokenizer {
 public:
  using LetterTokenizer::LetterTokenizer;
  std::string_view TokenBytes(TokenId id) const override {
    return std::string_view(" A B C D E F G H I J K L M N O P Q R S T U V W X Y Z").substr(2 * (id % 26), 2);
  }
  bool strips_leading_space() const override { return true; }
};

TEST_P(EngineTest, ContinuedAnswerKeepsItsLeadingSpace) {
  const SpacedLetters letters(HashNetwork::kVocab);
  for (const bool continues_answer : {false, true}) {
    auto engine =
        Engine::Start(network_, letters, {.slots = 1, .memory_len = 24, .pinned_max = 8, .kv_dtype = DType::kF32});
    ASSERT_TRUE(engine.ok()) << engine.status().ToString();
    SubmittedTurn turn = GreedyTurn(1, 7, Tokens(10, 1), {}, kWindow, 3);
    turn.request.continues_answer = continues_answer;
    ASSERT_TRUE((*engine)->Submit(turn.request).ok());
    turn.sink->Wait();
    EXPECT_EQ(turn.sink->text().starts_with(' '), continues_answer);
    EXPECT_EQ(turn.sink->text().size(), continues_answer ? 6U : 5U);
  }
}

TEST_P(EngineTest, WarmUpPrefillsAndTheNextTurnComputesOnlyNewTokens) {
  Start({.slots = 1});
  std::vector<TokenId> tokens = Tokens(30, 2);
  const TurnEnd warm = RunTurn(GreedyTurn(1, 7, tokens, {}, kWindow, 0));
  EXPECT_EQ(warm.reason, FinishReason::kStop);
  EXPECT_TRUE(warm.output.empty());
  tokens.push_back(5);
  const TurnEnd turn = RunTurn(GreedyTurn(2, 7, tokens, {}, kWindow, 3));
  EXPECT_EQ(turn.report.tokens_reused, 30);
  EXPECT_EQ(turn.report.tokens_computed, 1);
  ExpectRight(tokens, {}, turn);
}

TEST_P(EngineTest, RegenerateRollsBackWithinTheRing) {
  Start({.slots = 1});
  const std::vector<TokenId> tokens = Tokens(60, 3);
  const TurnEnd first = RunTurn(GreedyTurn(1, 7, tokens, {}, kWindow, 20));
  const TurnEnd again = RunTurn(GreedyTurn(2, 7, tokens, {}, kWindow, 20));
  EXPECT_EQ(again.report.source, CacheSource::kSlot);
  EXPECT_EQ(again.report.tokens_reused, 59);
  EXPECT_EQ(again.output, first.output);
  ExpectRight(tokens, {}, again);
}

TEST_P(EngineTest, EditBeyondTheRingIsRecomputed) {
  Start({.slots = 1, .prefill_chunk = 8});
  std::vector<TokenId> tokens = Tokens(200, 4);
  RunTurn(GreedyTurn(1, 7, tokens, {}, kWindow, 1));
  tokens[100] = (tokens[100] + 1) % HashNetwork::kVocab;
  const TurnEnd edited = RunTurn(GreedyTurn(2, 7, tokens, {}, kWindow, 4));
  EXPECT_EQ(edited.report.source, CacheSource::kRecomputed);
  // The pinned prefix is unchanged. The network's two layers reach 2 * (memory_len - 1) tokens back, so no more is
  // replayed after it.
  EXPECT_EQ(edited.report.tokens_reused, 4);
  EXPECT_EQ(edited.report.tokens_computed, 2 * 23 + 1);
  ExpectRight(tokens, {}, edited);
}

// Until the ring is full, a step takes as many tokens as fit into the ring; then as many as its spare rows hold.
TEST_P(EngineTest, EmptyRingPrefillsALongPromptInFewSteps) {
  constexpr RingWindow kLong{4, 600, Eviction::kToken};
  Start({.slots = 1, .prefill_chunk = 2048, .step_tokens = 2048}, kLong.memory_len);
  std::atomic<int> steps{0};
  network_.OnStep([&] { ++steps; });
  // 1,120 rows (600 + 512 - 1 in whole tiles) after 4 pinned ones; any more take another step.
  for (const auto& [length, prefills] : {std::pair{size_t{1124}, 1}, {size_t{1125}, 2}, {size_t{1190}, 2}}) {
    steps = 0;
    const std::vector<TokenId> tokens = Tokens(length, static_cast<uint32_t>(length));
    ExpectRight(tokens, {}, RunTurn(GreedyTurn(length, length, tokens, {}, kLong, 2)), kLong);
    EXPECT_EQ(steps, prefills + 1) << length;
  }
}

TEST_P(EngineTest, ChangedMessageStartsInvalidateTheRest) {
  Start({.slots = 1});
  const std::vector<TokenId> tokens = Tokens(50, 5);
  RunTurn(GreedyTurn(1, 7, tokens, {0, 20}, kWindow, 1));
  const TurnEnd moved = RunTurn(GreedyTurn(2, 7, tokens, {0, 29}, kWindow, 6));
  EXPECT_LE(moved.report.tokens_reused, 20);
  ExpectRight(tokens, {0, 29}, moved);
}

TEST_P(EngineTest, SessionLenIsExact) {
  Start({.slots = 1, .session_len = 50});
  const TurnEnd below = RunTurn(GreedyTurn(1, 1, Tokens(49, 6), {}, kWindow, 10));
  EXPECT_EQ(below.reason, FinishReason::kSessionFull);
  EXPECT_EQ(below.output.size(), 1u);
  const TurnEnd equal = RunTurn(GreedyTurn(2, 2, Tokens(50, 6), {}, kWindow, 10));
  EXPECT_EQ(equal.reason, FinishReason::kSessionFull);
  EXPECT_TRUE(equal.output.empty());
  const Status above = engine_->Submit(GreedyTurn(3, 3, Tokens(51, 6), {}, kWindow, 10).request);
  EXPECT_EQ(above.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(above.reason(), "context_length_exceeded");
}

TEST_P(EngineTest, RepetitionGuardEndsALoopOnRequest) {
  Start({.slots = 1});
  const auto loop = [&](TurnId id, bool ends, int64_t min_tokens) {
    SubmittedTurn turn = GreedyTurn(id, id, Tokens(9, 1), {}, kWindow, 700);
    turn.request.sampling.logit_bias = {{3, 100}};
    turn.request.sampling.min_tokens = min_tokens;
    turn.request.ends_repetition = ends;
    return RunTurn(turn);
  };
  const TurnEnd ended = loop(1, true, 0);
  EXPECT_EQ(ended.reason, FinishReason::kRepetition);
  EXPECT_EQ(ended.output, std::vector<TokenId>(515, 3));
  EXPECT_EQ(loop(2, false, 0).reason, FinishReason::kLength);
  const TurnEnd longer = loop(3, true, 600);
  EXPECT_EQ(longer.reason, FinishReason::kRepetition);
  EXPECT_EQ(longer.output.size(), 600u);
  // The next turn finds the whole answer in the cache.
  std::vector<TokenId> tokens = Tokens(9, 1);
  tokens.insert(tokens.end(), longer.output.begin(), longer.output.end());
  const int64_t said = std::ssize(tokens);
  tokens.push_back(4);
  EXPECT_GE(RunTurn(GreedyTurn(4, 3, tokens, {}, kWindow, 1)).report.tokens_reused, said - 1);
}

TEST_P(EngineTest, RefusesImpossibleTurnsOnSubmission) {
  Start({.slots = 1});
  const auto code = [&](auto change) {
    SubmittedTurn turn = GreedyTurn(1, 1, Tokens(5, 1), {}, kWindow, 1);
    change(turn.request);
    return engine_->Submit(turn.request).code();
  };
  EXPECT_EQ(code([](TurnRequest& r) { r.tokens.clear(); }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](TurnRequest& r) { r.tokens[2] = HashNetwork::kVocab; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](TurnRequest& r) { r.tokens[2] = -1; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](TurnRequest& r) { r.window.pinned = 9; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](TurnRequest& r) { r.window.memory_len = 25; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](TurnRequest& r) { r.window.memory_len = 0; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](TurnRequest& r) { r.max_tokens = -2; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](TurnRequest& r) { r.message_starts = {3, 1}; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](TurnRequest& r) { r.sampling.temperature = -1; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](TurnRequest& r) { r.sink = nullptr; }), StatusCode::kInvalidArgument);
}

TEST_P(EngineTest, CancelTakesEffectAtTheNextStepAndKeepsTheAnswer) {
  Start({.slots = 1});
  std::vector<TokenId> tokens = Tokens(10, 8);
  SubmittedTurn turn = GreedyTurn(1, 7, tokens, {}, kWindow, -1);
  ASSERT_TRUE(engine_->Submit(turn.request).ok());
  turn.sink->WaitForTokens(5);
  engine_->Cancel(1);
  const TurnEnd end = turn.sink->Wait();
  EXPECT_EQ(end.reason, FinishReason::kCancelled);
  EXPECT_EQ(end.output, turn.sink->ids());
  ExpectRight(tokens, {}, end);
  tokens.insert(tokens.end(), end.output.begin(), end.output.end());
  const TurnEnd next = RunTurn(GreedyTurn(2, 7, tokens, {}, kWindow, 3));
  EXPECT_EQ(next.report.tokens_computed, 1);
  ExpectRight(tokens, {}, next);
}

TEST_P(EngineTest, RefusesASecondTurnOfABusyTimeline) {
  Start({.slots = 2});
  SubmittedTurn running = GreedyTurn(1, 7, Tokens(10, 9), {}, kWindow, -1);
  ASSERT_TRUE(engine_->Submit(running.request).ok());
  running.sink->WaitForTokens(2);
  const TurnEnd second = RunTurn(GreedyTurn(2, 7, Tokens(10, 9), {}, kWindow, 3));
  EXPECT_EQ(second.reason, FinishReason::kError);
  EXPECT_EQ(second.error.code(), StatusCode::kBusy);
  engine_->Cancel(1);
  ExpectRight(Tokens(10, 9), {}, running.sink->Wait());
}

TEST_P(EngineTest, EvictsLeastRecentlyUsedIdleTimelines) {
  Start({.slots = 2});
  for (TurnId turn = 1; turn <= 3; ++turn) RunTurn(GreedyTurn(turn, turn, Tokens(12, 10), {}, kWindow, 2));
  EXPECT_EQ(engine_->stats().slots_taken, 1u);
  EXPECT_EQ(RunTurn(GreedyTurn(4, 3, Tokens(12, 10), {}, kWindow, 2)).report.source, CacheSource::kSlot);
  EXPECT_EQ(RunTurn(GreedyTurn(5, 2, Tokens(12, 10), {}, kWindow, 2)).report.source, CacheSource::kSlot);
  const TurnEnd lost = RunTurn(GreedyTurn(6, 1, Tokens(12, 10), {}, kWindow, 2));
  EXPECT_EQ(lost.report.source, CacheSource::kRecomputed);
  ExpectRight(Tokens(12, 10), {}, lost);
}

TEST_P(EngineTest, QueuesTurnsBeyondTheSlotsUpToALimit) {
  Start({.slots = 2, .queue_limit = 4});
  std::vector<SubmittedTurn> turns;
  for (TurnId turn = 0; turn < 12; ++turn) {
    SubmittedTurn made = GreedyTurn(turn, 100 + turn, Tokens(20, 11), {}, kWindow, 2000);
    const Status accepted = engine_->Submit(made.request);
    if (accepted.ok()) {
      turns.push_back(std::move(made));
    } else {
      EXPECT_EQ(accepted.code(), StatusCode::kOverloaded);
    }
  }
  // Running and queued turns. (On a very slow machine some may have ended.)
  EXPECT_GE(turns.size(), 6u);
  EXPECT_LT(turns.size(), 12u);
  for (const SubmittedTurn& turn : turns) {
    const TurnEnd end = turn.sink->Wait();
    EXPECT_EQ(end.output.size(), 2000u) << "an accepted turn runs: " << end.error.ToString();
  }
}

TEST_P(EngineTest, OneAccountCannotFillTheQueue) {
  Start({.slots = 2, .queue_limit = 4});
  std::vector<SubmittedTurn> accepted;
  const auto submit = [&](const std::string& tenant) {
    const TurnId turn = accepted.size() + 1;
    SubmittedTurn made = GreedyTurn(turn, 100 + turn, Tokens(20, 11), {}, kWindow, -1);
    made.request.tenant = tenant;
    const bool ok = engine_->Submit(made.request).ok();
    if (ok) accepted.push_back(std::move(made));
    return ok;
  };
  while (submit("many")) {
  }
  EXPECT_EQ(accepted.size(), 6u) << "two run, four wait";
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(submit("other")) << i;
  EXPECT_FALSE(submit("many"));
  EXPECT_TRUE(submit("third"));
  for (const SubmittedTurn& turn : accepted) engine_->Cancel(turn.request.turn);
  for (const SubmittedTurn& turn : accepted) EXPECT_EQ(turn.sink->Wait().reason, FinishReason::kCancelled);
  EXPECT_TRUE(submit("many")) << "there is room again";
}

TEST_P(EngineTest, ReportsQueuePositionChanges) {
  Start({.slots = 1});
  std::vector<SubmittedTurn> turns;
  for (TurnId turn = 1; turn <= 4; ++turn) {
    turns.push_back(GreedyTurn(turn, 10 + turn, Tokens(10, 12), {}, kWindow, turn == 1 ? -1 : 3));
    ASSERT_TRUE(engine_->Submit(turns.back().request).ok());
    if (turn == 1) turns[0].sink->WaitForTokens(1);
  }
  for (size_t i = 1; i <= 3; ++i) turns[i].sink->WaitForPosition(static_cast<int64_t>(i));
  engine_->Cancel(3);
  turns[3].sink->WaitForPosition(2);
  engine_->Cancel(1);
  for (auto& turn : turns) turn.sink->Wait();
  EXPECT_TRUE(turns[0].sink->positions().empty());
  EXPECT_EQ(turns[1].sink->positions(), std::vector<int64_t>({1}));
  EXPECT_EQ(turns[2].sink->positions(), std::vector<int64_t>({2}));
  EXPECT_EQ(turns[3].sink->positions(), std::vector<int64_t>({3, 2, 1}));
}

TEST_P(EngineTest, StopStringsEndTheTextBeforeThem) {
  Start({.slots = 1});
  const std::vector<TokenId> tokens = Tokens(10, 13);
  const TurnEnd whole = RunTurn(GreedyTurn(1, 1, tokens, {}, kWindow, 30));
  std::string text;
  for (const TokenId id : whole.output) text += tokenizer_.TokenBytes(id);
  SubmittedTurn turn = GreedyTurn(2, 2, tokens, {}, kWindow, 30);
  turn.request.stop_strings = {text.substr(12, 3)};
  const TurnEnd end = RunTurn(turn);
  EXPECT_EQ(end.reason, FinishReason::kStop);
  EXPECT_EQ(end.stop_string, text.substr(12, 3));
  EXPECT_EQ(turn.sink->text(), text.substr(0, text.find(end.stop_string)));
}

TEST_P(EngineTest, DestructionEndsEveryTurn) {
  Start({.slots = 1});
  std::vector<SubmittedTurn> turns;
  for (TurnId turn = 0; turn < 5; ++turn) {
    turns.push_back(GreedyTurn(turn, turn, Tokens(20, 14), {}, kWindow, -1));
    ASSERT_TRUE(engine_->Submit(turns.back().request).ok());
  }
  turns[0].sink->WaitForTokens(3);
  engine_.reset();
  for (auto& turn : turns) EXPECT_EQ(turn.sink->Wait().reason, FinishReason::kCancelled);
}

TEST_P(EngineTest, RunsAhead) {
  Start({.slots = 4});
  const std::vector<TokenId> tokens = Tokens(20, 15);
  const TurnEnd plain = RunTurn(GreedyTurn(1, 1, tokens, {}, kWindow, 30));
  ExpectRight(tokens, {}, plain);
  // 30 tokens in 30 steps. The prefill step samples the first; from then on every step is launched ahead.
  EXPECT_EQ(network_.steps_ahead(), GetParam() ? 29 : 0);
  EXPECT_EQ(network_.rows_computed(), 20 + 29) << "nothing is computed for a token that is not wanted";
}

// While the step runs, all inputs of its sampling become known.
TEST_P(EngineTest, RunsAheadDespiteDependentChoices) {
  Start({.slots = 4});
  HashNetwork in_step(*backend_);
  const std::unique_ptr<Engine> other = EngineOn(in_step, {.slots = 4}, kWindow.memory_len);
  const std::vector<TokenId> plain = RunTurn(GreedyTurn(1, 1, Tokens(20, 15), {}, kWindow, 30)).output;
  const auto choices = {SamplingParams{.temperature = 0, .repetition_penalty = 1.01},
                        SamplingParams{.temperature = 0, .presence_penalty = 2},
                        SamplingParams{.temperature = 0, .frequency_penalty = 2},
                        SamplingParams{.temperature = 0, .min_tokens = 30},
                        SamplingParams{.temperature = 0, .top_p_decay = 0.9},
                        SamplingParams{.temperature = 0, .bad_words = {{plain[7], plain[8]}}}};
  for (TurnId turn = 2; const SamplingParams& sampling : choices) {
    SubmittedTurn here = GreedyTurn(turn, turn, Tokens(20, 15), {}, kWindow, 30);
    SubmittedTurn there = GreedyTurn(turn, turn, Tokens(20, 15), {}, kWindow, 30);
    here.request.sampling = there.request.sampling = sampling;
    const int64_t before = network_.steps_ahead();
    const TurnEnd end = RunTurn(here);
    EXPECT_EQ(end.output.size(), 30u);
    EXPECT_EQ(network_.steps_ahead() - before, GetParam() ? 29 : 0);
    ASSERT_TRUE(other->Submit(there.request).ok());
    EXPECT_EQ(end.output, there.sink->Wait().output);
    if (!sampling.bad_words.empty()) {
      EXPECT_NE(end.output[8], plain[8]);
    }
    ++turn;
  }
}

TEST_P(EngineTest, RunsAheadOnlyIfChoicesArePredictable) {
  constexpr auto kTurns = static_cast<int64_t>(kMaxDeferredRows) + 1;
  for (const double penalty : {1.0, 0.0}) {
    Start({.slots = kTurns});
    std::vector<SubmittedTurn> turns;
    for (TurnId turn = 1; turn <= kTurns; ++turn) {
      turns.push_back(GreedyTurn(turn, turn, Tokens(4, turn), {}, kWindow, 400));
      if (turn == 1) turns.back().request.sampling.presence_penalty = penalty;
    }
    // Released together once all are queued.
    std::promise<void> all;
    network_.OnStep([ready = all.get_future().share()] { ready.wait(); });
    for (const SubmittedTurn& turn : turns) ASSERT_TRUE(engine_->Submit(turn.request).ok());
    all.set_value();
    for (const SubmittedTurn& turn : turns) EXPECT_EQ(turn.sink->Wait().output.size(), 400u);
    network_.OnStep(nullptr);
    EXPECT_EQ(network_.most_rows_ahead() == kTurns, GetParam() && penalty == 0);
  }
}

TEST_P(EngineTest, UnforeseenEndLeavesAValidCache) {
  Start({.slots = 2});
  std::vector<TokenId> tokens = Tokens(20, 16);
  const TurnEnd whole = RunTurn(GreedyTurn(1, 1, tokens, {}, kWindow, 30));
  size_t stop = 5;  // a token that does not occur before
  while (std::find(whole.output.begin(), whole.output.begin() + static_cast<int64_t>(stop), whole.output[stop]) !=
         whole.output.begin() + static_cast<int64_t>(stop)) {
    ++stop;
  }
  SubmittedTurn stopped = GreedyTurn(2, 2, tokens, {}, kWindow, 30);
  stopped.request.stop_ids = {whole.output[stop]};
  SubmittedTurn beside = GreedyTurn(3, 3, tokens, {}, kWindow, 30);
  ASSERT_TRUE(engine_->Submit(beside.request).ok());
  const TurnEnd end = RunTurn(stopped);
  EXPECT_EQ(end.reason, FinishReason::kStop);
  EXPECT_EQ(end.output.size(), stop + 1);
  EXPECT_EQ(stopped.sink->ids().size(), stop);
  ASSERT_TRUE(end.stop_token.has_value());
  EXPECT_EQ(end.stop_token->id, whole.output[stop]);
  EXPECT_LE(end.stop_token->logprob, 0);
  EXPECT_FALSE(whole.stop_token.has_value());
  EXPECT_EQ(beside.sink->Wait().output, whole.output);
  tokens.insert(tokens.end(), end.output.begin(), end.output.end());
  const std::vector<int64_t> starts = {static_cast<int64_t>(tokens.size())};
  tokens.push_back(9);
  const TurnEnd next = RunTurn(GreedyTurn(4, 2, tokens, starts, kWindow, 10));
  EXPECT_GE(next.report.tokens_reused, 20 + static_cast<int64_t>(stop));
  ExpectRight(tokens, starts, next);
}

// Conversations go idle, return, regenerate, rewind, edit, get cancelled and closed, on few slots, from several
// threads: no wrong row.
TEST_P(EngineTest, RandomConversationsReadNoWrongRow) {
  Start({.slots = 8, .prefill_chunk = 16, .step_tokens = 32});
  std::atomic<TurnId> next_turn{1};
  std::atomic<int64_t> reused{0}, recomputed{0};
  const auto client = [&](uint32_t seed) {
    std::mt19937 random(seed);
    struct Conversation {
      TimelineId id;
      std::vector<TokenId> tokens;
      std::vector<int64_t> starts;
      RingWindow window;
    };
    std::vector<Conversation> conversations;
    for (uint32_t i = 0; i < 4; ++i) {
      const auto pinned = static_cast<int64_t>(random() % 5);
      conversations.push_back(
          {seed * 1000 + i, {}, {}, {pinned, 24, random() % 2 == 0 ? Eviction::kTurn : Eviction::kToken}});
    }
    const auto cut = [&](Conversation& c, size_t length) {
      c.tokens.resize(length);
      std::erase_if(c.starts, [&](int64_t start) { return start >= static_cast<int64_t>(length); });
    };
    for (int step = 0; step < 250; ++step) {
      Conversation& c = conversations[random() % conversations.size()];
      const auto action = random() % 12;
      if (action == 0 && !c.tokens.empty()) cut(c, random() % c.tokens.size());        // rewind anywhere
      if (action == 1 && c.tokens.size() > 6) cut(c, c.tokens.size() - random() % 6);  // undo a little
      if (action == 2 && !c.tokens.empty()) {                                          // edit
        TokenId& edited = c.tokens[random() % c.tokens.size()];
        edited = (edited + 1) % HashNetwork::kVocab;
      }
      if (action == 3) engine_->Close(c.id);
      c.starts.push_back(static_cast<int64_t>(c.tokens.size()));
      for (size_t n = 1 + random() % 30; n > 0; --n)
        c.tokens.push_back(static_cast<TokenId>(random() % HashNetwork::kVocab));
      const bool cancelled = random() % 5 == 0;
      SubmittedTurn turn = GreedyTurn(next_turn++, c.id, c.tokens, c.starts, c.window,
                                      cancelled ? 400 : static_cast<int64_t>(random() % 12));
      ASSERT_TRUE(engine_->Submit(turn.request).ok());
      if (cancelled) {
        turn.sink->WaitForTokens(random() % 8);
        engine_->Cancel(turn.request.turn);
      }
      const TurnEnd end = turn.sink->Wait();
      ASSERT_NE(end.reason, FinishReason::kError) << end.error.ToString();
      const size_t checked = std::min<size_t>(end.output.size(), 12);
      ExpectRight(c.tokens, c.starts,
                  {.output = {end.output.begin(), end.output.begin() + static_cast<int64_t>(checked)}}, c.window);
      c.tokens.insert(c.tokens.end(), end.output.begin(), end.output.end());
      reused += end.report.tokens_reused;
      recomputed += end.report.source == CacheSource::kRecomputed ? 1 : 0;
      if (HasFatalFailure()) return;
    }
  };
  std::vector<std::thread> clients;
  for (uint32_t seed = 1; seed <= 4; ++seed) clients.emplace_back(client, seed);
  for (auto& thread : clients) thread.join();
  EXPECT_GT(reused, 1000);
  EXPECT_GT(recomputed, 10);
  EXPECT_GT(engine_->stats().slots_taken, 10u);
}

}  // namespace
}  // namespace ringside
