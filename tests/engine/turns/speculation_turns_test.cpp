// Speculative decoding changes no token: the same turns on two engines, with and without drafts, give the same tokens,
// log probabilities and reports. The hash network turns any stale or lost row into a wrong token. The clock does not
// move, so drafts always pay unless none are accepted. On a network that runs ahead, a step with drafts interrupts
// that.
#include <gtest/gtest.h>

#include <latch>
#include <optional>
#include <thread>

#include "engine/grammar/grammar_cache.h"
#include "tests/engine/engine_harness.h"
#include "tests/engine/hash_network.h"
#include "tests/engine/tiers/tiers_harness.h"

namespace ringside {
namespace {

constexpr TokenId kFew = 2;  // tokens that an answer may have: about half of all drafts are then right

struct Kind {
  bool recurrent = false, runs_ahead = false;
};

struct Host {
  Host(Kind kind, int64_t answers) : network(*backend, kind.runs_ahead, /*branches=*/true, kind.recurrent) {
    network.SampleAmong(answers);
  }
  void Start(EngineOptions options, Speculation speculation) {
    options.pinned_max = 8;
    options.kv_dtype = DType::kF32;
    options.speculation = speculation;
    engine = std::move(
        *Engine::Start(network, tokenizer, options, {.tiers = tiers.get(), .fetch_deadline_ms = 60'000}, clock));
  }
  SubmittedTurn Submit(const TurnRequest& request) const {
    SubmittedTurn turn;
    turn.request = request;
    turn.request.sink = turn.sink;
    const Status accepted = engine->Submit(turn.request);
    EXPECT_TRUE(accepted.ok()) << accepted.ToString();
    return turn;
  }

  std::unique_ptr<Backend> backend = std::move(*MakeCpuBackend({.threads = 1}));
  HashNetwork network;
  LetterTokenizer tokenizer{HashNetwork::kVocab};
  ManualClock clock;
  std::unique_ptr<TieredStore> tiers =
      std::make_unique<TieredStore>(std::make_unique<RamStore>(1 << 24), std::make_unique<RamStore>(1 << 24),
                                    TieredStoreOptions{.host_idle_ms = 0, .sweep_ms = 0});
  std::unique_ptr<Engine> engine;
};

class SpeculationTest : public ::testing::TestWithParam<Kind> {
 protected:
  void Start(EngineOptions options = {}, RingWindow window = {4, 2000, Eviction::kTurn}, int64_t answers = kFew) {
    window_ = window;
    options.memory_len = window.memory_len;
    for (auto* host : {&plain_, &drafting_}) host->emplace(GetParam(), answers);
    plain_->Start(options, Speculation::kOff);
    drafting_->Start(options, Speculation::kNgram);
  }
  TurnRequest Request(TimelineId timeline, std::vector<TokenId> tokens, int64_t max_tokens) {
    return GreedyTurn(++turns_, timeline, std::move(tokens), {}, window_, max_tokens).request;
  }
  static void ExpectEqual(const SubmittedTurn& plain, const SubmittedTurn& drafting) {
    // Running ahead, a turn that ends by its own text has computed its last token too, which the next turn then reuses.
    const double ahead = GetParam().runs_ahead ? 1 : 0;
    const TurnEnd expected = plain.sink->Wait(), end = drafting.sink->Wait();
    EXPECT_NE(end.reason, FinishReason::kError) << end.error.ToString();
    EXPECT_EQ(end.reason, expected.reason);
    EXPECT_EQ(end.output, expected.output);
    EXPECT_EQ(end.stop_string, expected.stop_string);
    EXPECT_NEAR(end.rows_computed.value_or(-1), expected.rows_computed.value_or(-1), ahead) << "drafts are not charged";
    EXPECT_NEAR(end.report.tokens_reused, expected.report.tokens_reused, ahead);
    EXPECT_NEAR(end.report.tokens_computed, expected.report.tokens_computed, ahead);
    EXPECT_EQ(end.report.tokens_evicted, expected.report.tokens_evicted);
    EXPECT_EQ(end.report.source, expected.report.source);
    EXPECT_EQ(drafting.sink->ids(), plain.sink->ids());
    EXPECT_EQ(drafting.sink->logprobs(), plain.sink->logprobs());
    EXPECT_EQ(drafting.sink->leads(), plain.sink->leads());
    EXPECT_EQ(drafting.sink->text(), plain.sink->text());
    EXPECT_EQ(expected.drafts.steps, 0);
  }
  /// Runs the turn on both engines. Returns the end of the one with drafts.
  TurnEnd RunBoth(const TurnRequest& request) {
    const SubmittedTurn plain = plain_->Submit(request), drafting = drafting_->Submit(request);
    ExpectEqual(plain, drafting);
    const DraftReport drafts = drafting.sink->Wait().drafts;
    drafted_ += drafts.drafted, accepted_ += drafts.accepted;
    return drafting.sink->Wait();
  }
  /// The turns so far had right drafts and wrong ones.
  void ExpectBothKinds() const {
    EXPECT_GT(accepted_, 0);
    EXPECT_GT(drafted_, accepted_);
  }

  RingWindow window_;
  std::optional<Host> plain_, drafting_;
  TurnId turns_ = 0;
  int64_t drafted_ = 0, accepted_ = 0;
};

std::string NameOf(const ::testing::TestParamInfo<Kind>& info) {
  return std::string(info.param.recurrent ? "Recurrent" : "Attention") + (info.param.runs_ahead ? "RunAhead" : "");
}

INSTANTIATE_TEST_SUITE_P(All, SpeculationTest,
                         ::testing::Values(Kind{}, Kind{.recurrent = true}, Kind{.runs_ahead = true},
                                           Kind{.recurrent = true, .runs_ahead = true}),
                         NameOf);

TEST_P(SpeculationTest, ManyGreedyTurns) {
  Start();
  std::vector<TokenId> tokens = Tokens(40, 1);
  for (uint32_t turn = 0; turn < 8; ++turn) {
    const TurnEnd end = RunBoth(Request(1, tokens, 90));
    EXPECT_LT(end.drafts.steps, 90);
    tokens.insert(tokens.end(), end.output.begin(), end.output.end());
    const std::vector<TokenId> input = Tokens(1 + turn * 5, turn);
    tokens.insert(tokens.end(), input.begin(), input.end());
  }
  ExpectBothKinds();
}

TEST_P(SpeculationTest, SampledWithSeedsAndLogprobs) {
  Start();
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    TurnRequest request = Request(seed, Tokens(30, 2), 120);
    request.sampling.temperature = 0.3 + 0.15 * static_cast<double>(seed);
    request.sampling.top_p = seed % 2 == 0 ? 1.0 : 0.9;
    request.sampling.top_p_decay = seed % 3 == 0 ? 0.99 : 1.0;
    request.sampling.seed = seed;
    request.sampling.logprobs = 3;
    RunBoth(request);
  }
  ExpectBothKinds();
}

TEST_P(SpeculationTest, PenaltiesBiasesAndBadWords) {
  Start({}, {4, 2000, Eviction::kTurn}, 5);
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    TurnRequest request = Request(seed, Tokens(30, seed), 150);
    request.sampling.temperature = seed % 2 == 0 ? 1.3 : 0;
    request.sampling.seed = seed;
    request.sampling.repetition_penalty = 1.2;
    request.sampling.presence_penalty = 0.7;
    request.sampling.frequency_penalty = 0.05;
    request.sampling.logit_bias = {{3, 2.0F}, {50, 9.0F}};
    request.sampling.bad_words = {{1, 2}, {4, 4, 4}};
    request.sampling.logprobs = 1;
    RunBoth(request);
  }
  ExpectBothKinds();
}

TEST_P(SpeculationTest, Grammars) {
  Start({}, {4, 2000, Eviction::kTurn}, 3);
  GrammarCache grammars{plain_->tokenizer};
  for (const char* regex : {"((AB|BA|C)[A-D]){30}", "(A{3}B{3}){4,20}C", "([AB]{2,9}C){5,12}"}) {
    for (uint64_t seed = 0; seed < 4; ++seed) {
      TurnRequest request = Request(turns_ + 1, Tokens(20, 3), 100);
      request.sampling.temperature = seed == 0 ? 0 : 1.5;
      request.sampling.seed = seed;
      request.stop_ids = {90};
      request.grammar = *grammars.Get({.kind = AnswerFormat::Kind::kRegex, .text = regex});
      RunBoth(request);
    }
  }
  ExpectBothKinds();
}

TEST_P(SpeculationTest, StopStringsAndStopTokens) {
  Start({}, {4, 2000, Eviction::kTurn}, 3);
  for (uint32_t seed = 1; seed <= 12; ++seed) {
    TurnRequest request = Request(seed, Tokens(20, seed), 200);
    request.stop_strings = {"ABCAB", "CCCCC"};
    if (seed % 3 == 0) request.stop_ids = {2};
    request.sampling.min_tokens = seed % 3 == 0 ? 60 : 0;
    request.ends_repetition = true;
    const TurnEnd end = RunBoth(request);
    // The next turn continues from the cache that the stop left.
    std::vector<TokenId> tokens = request.tokens;
    tokens.insert(tokens.end(), end.output.begin(), end.output.end());
    tokens.push_back(7);
    RunBoth(Request(seed, tokens, 5));
  }
  ExpectBothKinds();
}

TEST_P(SpeculationTest, EveryLimitOfTokens) {
  Start();
  for (int64_t most = 1; most <= 40; ++most) {
    EXPECT_EQ(RunBoth(Request(1, Tokens(50, 4), most)).output.size(), static_cast<size_t>(most));
    TurnRequest request = Request(2, Tokens(50, 5), -1);
    request.session_len = 50 + most;
    EXPECT_EQ(RunBoth(request).reason, FinishReason::kSessionFull);
  }
  ExpectBothKinds();
}

TEST_P(SpeculationTest, WrappedRingWithPinnedPrefix) {
  for (const Eviction eviction : {Eviction::kTurn, Eviction::kToken}) {
    for (const int64_t chunk : {1, 4, 24}) {
      Start({.slots = 2, .prefill_chunk = chunk, .step_tokens = chunk}, {4, 40, eviction});
      std::vector<TokenId> tokens = Tokens(30, 6);
      std::vector<int64_t> starts;
      for (uint32_t turn = 0; turn < 6; ++turn) {
        TurnRequest request = Request(1, tokens, 70);
        request.message_starts = starts;
        const TurnEnd end = RunBoth(request);
        tokens.insert(tokens.end(), end.output.begin(), end.output.end());
        starts.push_back(std::ssize(tokens));
        tokens.insert(tokens.end(), {3, 1, 4, 1, 5});
      }
    }
  }
  ExpectBothKinds();
}

TEST_P(SpeculationTest, RewindsIntoASpeculatedAnswer) {
  Start();
  const std::vector<TokenId> prompt = Tokens(30, 7);
  const TurnEnd first = RunBoth(Request(1, prompt, 120));
  for (size_t kept = 119; kept > 1; kept -= 7) {
    std::vector<TokenId> tokens = prompt;
    tokens.insert(tokens.end(), first.output.begin(), first.output.begin() + static_cast<ptrdiff_t>(kept));
    tokens.push_back(60);
    RunBoth(Request(1, tokens, 20));
  }
  ExpectBothKinds();
}

TEST_P(SpeculationTest, SavedAndRestored) {
  Start({.slots = 2});
  std::vector<TokenId> tokens = Tokens(30, 8);
  for (TimelineId timeline = 1; timeline <= 5; ++timeline) {
    TurnRequest request = Request(timeline, tokens, 80);
    request.owner = "conv";
    request.continues = timeline > 1;
    const TurnEnd end = RunBoth(request);
    EXPECT_EQ(end.report.source, timeline > 1 ? CacheSource::kHost : CacheSource::kNew);
    tokens.insert(tokens.end(), end.output.begin(), end.output.end());
    tokens.push_back(9);
    for (auto* host : {&plain_, &drafting_}) {
      (*host)->engine->Park(timeline);
      // Until the cache has arrived in the tiers.
      while ((*host)->engine->Where("conv") != CacheSource::kHost) std::this_thread::yield();
    }
  }
  ExpectBothKinds();
}

TEST_P(SpeculationTest, BatchesOfConversations) {
  Start({.slots = 8});
  for (uint32_t round = 0; round < 3; ++round) {
    std::vector<SubmittedTurn> plain, drafting;
    for (TimelineId timeline = 1; timeline <= 8; ++timeline) {
      TurnRequest request =
          Request(timeline, Tokens(20 + 9 * timeline, 8 * round + static_cast<uint32_t>(timeline)), 60);
      request.tenant = timeline % 2 == 0 ? "a" : "b";
      request.sampling.temperature = timeline % 3 == 0 ? 1.0 : 0;
      request.sampling.seed = timeline;
      plain.push_back(plain_->Submit(request));
      drafting.push_back(drafting_->Submit(request));
    }
    for (size_t i = 0; i < plain.size(); ++i) {
      ExpectEqual(plain[i], drafting[i]);
      drafted_ += drafting[i].sink->Wait().drafts.drafted;
      accepted_ += drafting[i].sink->Wait().drafts.accepted;
    }
  }
  ExpectBothKinds();
}

TEST_P(SpeculationTest, CancelledTurnsContinue) {
  Start({}, {4, 2000, Eviction::kTurn});
  std::vector<TokenId> tokens = Tokens(30, 9);
  for (uint32_t turn = 0; turn < 6; ++turn) {
    const SubmittedTurn cancelled = drafting_->Submit(Request(1, tokens, -1));
    cancelled.sink->WaitForTokens(20 + turn);
    drafting_->engine->Cancel(cancelled.request.turn);
    const TurnEnd end = cancelled.sink->Wait();
    EXPECT_EQ(end.reason, FinishReason::kCancelled);
    // The other engine computes the same number of tokens.
    const SubmittedTurn whole = plain_->Submit(Request(1, tokens, std::ssize(end.output)));
    EXPECT_EQ(whole.sink->Wait().output, end.output);
    tokens.insert(tokens.end(), end.output.begin(), end.output.end());
    tokens.push_back(11);
  }
  RunBoth(Request(1, tokens, 60));
  ExpectBothKinds();
}

// Recurrent networks have neither.
class BranchingTurns : public SpeculationTest {};

INSTANTIATE_TEST_SUITE_P(Attention, BranchingTurns, ::testing::Values(Kind{}, Kind{.runs_ahead = true}), NameOf);

TEST_P(BranchingTurns, BeamsAndSeveralAnswersHaveNoDrafts) {
  Start({.slots = 8});
  TurnRequest beams = Request(1, Tokens(30, 10), 40);
  beams.sampling.beams.width = 3;
  EXPECT_EQ(RunBoth(beams).drafts.steps, 0);
  TurnRequest first = Request(2, Tokens(30, 10), 60), second = Request(3, Tokens(30, 10), 60);
  second.may_branch = true;
  RunBoth(first);
  EXPECT_EQ(RunBoth(second).drafts.steps, 0);
}

// The drafts come from a part of the prompt that has left the window, so the answer does not depend on them.
class ForcedDrafts : public SpeculationTest {
 protected:
  static constexpr RingWindow kSmall{4, 24, Eviction::kToken};
  static constexpr int64_t kAnswer = 60;

  void SetUp() override {
    Start({}, kSmall, HashNetwork::kVocab);
    filler_ = Tokens(200, 11);
    answer_ = RunBoth(Request(1, With(Tokens(kRegion, 12)), kAnswer)).output;
  }
  /// The prompt with this region before the filler.
  std::vector<TokenId> With(std::vector<TokenId> region) const {
    std::vector<TokenId> tokens{1, 2, 3, 4};
    region.resize(kRegion, 5);
    tokens.insert(tokens.end(), region.begin(), region.end());
    tokens.insert(tokens.end(), filler_.begin(), filler_.end());
    return tokens;
  }
  static constexpr size_t kRegion = 400;
  std::vector<TokenId> filler_, answer_;
};

INSTANTIATE_TEST_SUITE_P(Attention, ForcedDrafts, ::testing::Values(Kind{}, Kind{.runs_ahead = true}), NameOf);

TEST_P(ForcedDrafts, PerfectOnesNeedFewSteps) {
  std::vector<TokenId> region(filler_.end() - 10, filler_.end());
  region.insert(region.end(), answer_.begin(), answer_.end());
  const TurnEnd end = RunBoth(Request(2, With(region), kAnswer));
  EXPECT_EQ(end.output, answer_);
  EXPECT_EQ(end.drafts.accepted, end.drafts.drafted);
  EXPECT_GE(end.drafts.accepted, kAnswer - 12);
  EXPECT_LE(end.drafts.steps, 12);
}

TEST_P(ForcedDrafts, WrongOnesStopSoon) {
  std::vector<TokenId> region;
  for (size_t i = 3; i + 1 < answer_.size(); ++i) {
    const auto next = answer_.begin() + static_cast<ptrdiff_t>(i);
    region.insert(region.end(), next - 3, next);
    region.push_back((*next + 1) % HashNetwork::kVocab);
  }
  const TurnEnd end = RunBoth(Request(2, With(region), kAnswer));
  EXPECT_EQ(end.output, answer_);
  EXPECT_GT(end.drafts.drafted, 0);
  EXPECT_EQ(end.drafts.accepted, 0);
}

// On a device each call has a price: rows whose parameters are known are sampled in one.
class RunningAhead : public SpeculationTest {};

INSTANTIATE_TEST_SUITE_P(Attention, RunningAhead, ::testing::Values(Kind{.runs_ahead = true}), NameOf);

TEST_P(RunningAhead, KnownParametersAreSampledInOneCall) {
  Start();
  EXPECT_GT(RunBoth(Request(1, Tokens(40, 1), 200)).drafts.steps, 0);
  EXPECT_GT(drafting_->network.most_rows_sampled(), 1);
}

TEST_P(RunningAhead, PenaltiesAreSampledOneAfterTheOther) {
  Start({}, {4, 2000, Eviction::kTurn}, 5);
  TurnRequest request = Request(1, Tokens(40, 1), 200);
  request.sampling.presence_penalty = 0.1;
  EXPECT_GT(RunBoth(request).drafts.steps, 0);
  EXPECT_EQ(drafting_->network.most_rows_sampled(), 1);
}

// The last token of the second prompt is computed alone, with drafts, in a step that the first turn runs ahead.
TEST_P(RunningAhead, DraftsBesideARowThatAwaitsItsToken) {
  Start({.prefill_chunk = 64});
  for (uint64_t round = 1; round <= 5; ++round) {
    std::vector<TokenId> repeating;
    while (repeating.size() < 65) repeating.push_back(static_cast<TokenId>(5 * round + repeating.size() % 5));
    std::vector<TurnRequest> requests = {Request(3 * round, Tokens(5, 3), 1),
                                         Request(3 * round + 1, Tokens(30, static_cast<uint32_t>(round)), 20),
                                         Request(3 * round + 2, repeating, 20)};
    for (TurnRequest& request : requests) request.sampling.temperature = 2, request.sampling.seed = round;
    std::vector<std::vector<SubmittedTurn>> turns(2);
    for (size_t i = 0; i < turns.size(); ++i) {
      Host& host = i == 0 ? *plain_ : *drafting_;
      std::latch submitted(1);
      host.network.OnStep([&] { submitted.wait(); });
      for (const TurnRequest& request : requests) turns[i].push_back(host.Submit(request));
      submitted.count_down();
      turns[i].front().sink->Wait();
      host.network.OnStep(nullptr);
      for (const SubmittedTurn& turn : turns[i]) turn.sink->Wait();
    }
    for (size_t i = 0; i < requests.size(); ++i) ExpectEqual(turns[0][i], turns[1][i]);
  }
  EXPECT_GT(drafting_->network.steps_ahead(), 0);
}

TEST_P(RunningAhead, StepsWithoutDraftsStillRunAhead) {
  Start({}, {4, 2000, Eviction::kTurn}, HashNetwork::kVocab);  // text that does not repeat
  RunBoth(Request(1, Tokens(40, 1), 200));
  EXPECT_GT(drafting_->network.steps_ahead(), 150);
}

}  // namespace
}  // namespace ringside
