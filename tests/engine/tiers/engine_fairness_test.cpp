// An tenant that takes all slots: another tenant's turn preempts one of its turns, which continues with its next
// token and recomputes nothing. The tests count steps, not time.
#include <array>
#include <map>

#include "engine/scheduler.h"
#include "tests/engine/lagging_backend.h"
#include "tests/engine/tiers/engine_tiers.h"

namespace ringside {
namespace {

/// Counts the engine's steps until a turn's first token.
class CountingSink final : public TokenSink {
 public:
  CountingSink(const std::atomic<int64_t>& steps, std::shared_ptr<TokenSink> next)
      : steps_(steps), next_(std::move(next)) {}
  void OnQueued(int64_t position) override { next_->OnQueued(position); }
  void OnStart(const CacheReport& report) override { next_->OnStart(report); }
  void OnTokens(const TokenDelta& delta) override {
    if (first_ < 0) first_ = steps_.load();
    next_->OnTokens(delta);
  }
  void OnEnd(const TurnEnd& end) override { next_->OnEnd(end); }
  /// Steps launched when the first token arrived.
  int64_t first() const { return first_; }

 private:
  const std::atomic<int64_t>& steps_;
  const std::shared_ptr<TokenSink> next_;
  std::atomic<int64_t> first_{-1};
};

class EngineFairnessTest : public EngineTiersTest {
 protected:
  static constexpr int64_t kSlots = 4;

  void SetUp() override {
    network_.OnStep([this] { Step(); });
  }
  void TearDown() override { engine_.reset(); }  // before the objects it calls
  void Step() {
    const int64_t step = ++steps_;
    std::function<void()> call;
    {
      std::lock_guard lock(mutex_);
      const auto found = at_step_.find(step);
      if (found != at_step_.end()) call = found->second;
    }
    if (call) call();
  }
  /// Runs on the engine's thread in that step: submissions are considered when the next one is planned.
  void AtStep(int64_t step, std::function<void()> call) {
    std::lock_guard lock(mutex_);
    at_step_[step] = std::move(call);
  }
  SubmittedTurn Make(const std::string& tenant, size_t prompt, int64_t max_tokens) {
    ++turns_;
    SubmittedTurn turn = Turn(turns_, turns_, Tokens(prompt, static_cast<uint32_t>(turns_)), max_tokens);
    turn.request.tenant = tenant;
    return turn;
  }
  void Submit(const SubmittedTurn& turn) { EXPECT_TRUE(engine_->Submit(turn.request).ok()); }
  /// Submits, and records the step of its first token: `*first` steps later.
  SubmittedTurn MakeCounted(const std::string& tenant, size_t prompt, int64_t max_tokens) {
    SubmittedTurn turn = Make(tenant, prompt, max_tokens);
    counting_.push_back(std::make_shared<CountingSink>(steps_, turn.request.sink));
    turn.request.sink = counting_.back();
    return turn;
  }
  void ExpectRightTurn(const SubmittedTurn& turn) {
    const TurnEnd end = turn.sink->Wait();
    EXPECT_EQ(end.reason, FinishReason::kLength) << end.error.ToString();
    EXPECT_EQ(turn.sink->ids(), end.output) << "each token once";
    ExpectRight(turn.request.tokens, end);
  }
  static int64_t Length(const SubmittedTurn& turn) { return std::ssize(turn.request.tokens) + turn.request.max_tokens; }

  std::atomic<int64_t> steps_{0};
  TurnId turns_ = 0;
  std::vector<std::shared_ptr<CountingSink>> counting_;

 private:
  std::mutex mutex_;
  std::map<int64_t, std::function<void()>> at_step_;
};
INSTANTIATE_TEST_SUITE_P(All, EngineFairnessTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Ahead" : "InStep"; });

TEST_P(EngineFairnessTest, ShortTurnOfAnotherAccountGetsItsFirstTokenAfterTwoSteps) {
  StartInMemory({.slots = kSlots, .prefill_chunk = 64, .step_tokens = 64});
  std::vector<SubmittedTurn> many;
  for (int i = 0; i < 12; ++i) many.push_back(Make("many", 20, 300));
  const SubmittedTurn other = MakeCounted("one", 20, 8);
  constexpr int64_t kComes = 60;
  AtStep(kComes, [&] { Submit(other); });
  AtStep(1, [&] {
    for (size_t i = 1; i < many.size(); ++i) Submit(many[i]);
  });
  Submit(many[0]);
  ExpectRightTurn(other);
  EXPECT_LE(counting_[0]->first(), kComes + 2 + (GetParam() ? 1 : 0)) << "the one under way, and its own";
  for (const SubmittedTurn& turn : many) ExpectRightTurn(turn);
  const EngineStats stats = SettledStats();
  EXPECT_EQ(stats.turns_preempted, 1u);
  EXPECT_EQ(stats.turns_preempted_for_memory, 0u);
  // Nothing is recomputed except the token that the preempted turn had sampled but not computed.
  int64_t rows = Length(other);
  for (const SubmittedTurn& turn : many) rows += Length(turn);
  EXPECT_LE(network_.rows_computed(), rows + 4);
}

TEST_P(EngineFairnessTest, LongPromptsDelayOnlyTheirAccount) {
  StartInMemory({.slots = kSlots, .prefill_chunk = 4, .step_tokens = 8});
  std::vector<SubmittedTurn> many;
  // Within the window: a turn that is still replaying its first tokens cannot be saved yet, and is not preempted at
  // once.
  for (int i = 0; i < 32; ++i) many.push_back(Make("many", 24, 2));
  const SubmittedTurn other = MakeCounted("one", 4, 4);
  // An tenant that arrives after the first 2,048 tokens starts with a lower counter than the others.
  ExpectRightTurn([&] {
    const SubmittedTurn first = Make("many", 10, 1200);
    Submit(first);
    return first;
  }());
  const int64_t comes = steps_ + 30;
  AtStep(comes, [&] { Submit(other); });
  AtStep(steps_ + 1, [&] {
    for (size_t i = 1; i < many.size(); ++i) Submit(many[i]);
  });
  Submit(many[0]);
  ExpectRightTurn(other);
  EXPECT_LE(counting_[0]->first(), comes + 2 + (GetParam() ? 1 : 0));
  for (const SubmittedTurn& turn : many) ExpectRightTurn(turn);
}

TEST_P(EngineFairnessTest, SharesSlotsEquallyWithMinimalPreemption) {
  StartInMemory({.slots = kSlots, .prefill_chunk = 64, .step_tokens = 64});
  std::vector<SubmittedTurn> turns;
  for (int i = 0; i < 8; ++i) turns.push_back(Make("many", 10, 200));
  for (int i = 0; i < 8; ++i) turns.push_back(Make("others", 10, 200));
  AtStep(40, [&] {
    for (size_t i = 8; i < 16; ++i) Submit(turns[i]);
  });
  AtStep(1, [&] {
    for (size_t i = 1; i < 8; ++i) Submit(turns[i]);
  });
  Submit(turns[0]);
  for (const SubmittedTurn& turn : turns) ExpectRightTurn(turn);
  EXPECT_EQ(SettledStats().turns_preempted, 2u) << "of four slots each tenant has two";
}

TEST_P(EngineFairnessTest, LoneAccountIsNeverPreempted) {
  StartInMemory({.slots = kSlots, .prefill_chunk = 64, .step_tokens = 64});
  std::vector<SubmittedTurn> turns;
  for (int i = 0; i < 16; ++i) turns.push_back(Make("an tenant whose name is long enough for the heap", 10, 100));
  for (int i = 0; i < 16; ++i) turns.push_back(Make("a", 10, 100));
  for (size_t i = 0; i < 16; ++i) Submit(turns[i]);
  for (size_t i = 0; i < 16; ++i) ExpectRightTurn(turns[i]);
  for (size_t i = 16; i < 32; ++i) Submit(turns[i]);
  for (size_t i = 16; i < 32; ++i) ExpectRightTurn(turns[i]);
  EXPECT_EQ(SettledStats().turns_preempted, 0u);
}

TEST_P(EngineFairnessTest, MoreAccountsThanSlotsRotateByQuanta) {
  StartInMemory({.slots = 2, .prefill_chunk = 64, .step_tokens = 64});
  constexpr int64_t kTokens = 150;
  std::vector<SubmittedTurn> turns;
  for (const char* tenant : {"a", "b", "c", "d", "e"}) turns.push_back(MakeCounted(tenant, 10, kTokens));
  AtStep(1, [&] {
    for (size_t i = 1; i < turns.size(); ++i) Submit(turns[i]);
  });
  Submit(turns[0]);
  for (const SubmittedTurn& turn : turns) ExpectRightTurn(turn);
  // Two at a time, each for a quantum before the others.
  for (size_t i = 0; i < turns.size(); ++i) {
    EXPECT_LE(counting_[i]->first(), static_cast<int64_t>(i / 2 + 1) * (kQuantumSteps + 8)) << i;
  }
  const auto preempted = static_cast<int64_t>(SettledStats().turns_preempted);
  EXPECT_GE(preempted, 3);
  EXPECT_LE(preempted, std::ssize(turns) * kTokens / kQuantumSteps + 2);
}

// Eight tenants on four slots: every running turn is within its quantum most of the time.
TEST_P(EngineFairnessTest, UnderservedAccountDoesNotWaitForAQuantum) {
  StartInMemory({.slots = kSlots, .prefill_chunk = 64, .step_tokens = 64});
  std::vector<SubmittedTurn> many, few;
  for (const char* tenant : {"a", "b", "c", "d", "e", "f", "g", "h"}) many.push_back(Make(tenant, 10, 2000));
  constexpr std::array<int64_t, 4> kComes{3000, 3011, 3024, 3037};
  for (const int64_t comes : kComes) {
    few.push_back(MakeCounted("one", 8, 4));
    AtStep(comes, [&, i = few.size() - 1] { Submit(few[i]); });
  }
  AtStep(1, [&] {
    for (size_t i = 1; i < many.size(); ++i) Submit(many[i]);
  });
  Submit(many[0]);
  for (size_t i = 0; i < few.size(); ++i) {
    ExpectRightTurn(few[i]);
    EXPECT_LE(counting_[i]->first(), kComes[i] + 2 + (GetParam() ? 1 : 0)) << i;
  }
  for (const SubmittedTurn& turn : many) ExpectRightTurn(turn);
}

// Its tenant was served about as much as each of the others when its turns arrive.
TEST_P(EngineFairnessTest, AnAccountThatWasServedTheSameDoesNotWaitForAQuantum) {
  StartInMemory({.slots = kSlots, .prefill_chunk = 64, .step_tokens = 64});
  const SubmittedTurn before = Make("one", 10, 400);
  Submit(before);
  ExpectRightTurn(before);
  std::vector<SubmittedTurn> many, few;
  for (const char* tenant : {"a", "b", "c", "d", "e", "f", "g", "h"}) many.push_back(Make(tenant, 10, 2000));
  const std::array<int64_t, 4> comes{steps_ + 1000, steps_ + 1011, steps_ + 1024, steps_ + 1037};
  for (const int64_t at : comes) {
    few.push_back(MakeCounted("one", 8, 4));
    AtStep(at, [&, i = few.size() - 1] { Submit(few[i]); });
  }
  AtStep(steps_ + 1, [&] {
    for (size_t i = 1; i < many.size(); ++i) Submit(many[i]);
  });
  Submit(many[0]);
  for (size_t i = 0; i < few.size(); ++i) {
    ExpectRightTurn(few[i]);
    EXPECT_LE(counting_[i]->first(), comes[i] + 2 + (GetParam() ? 1 : 0)) << i;
  }
  for (const SubmittedTurn& turn : many) ExpectRightTurn(turn);
}

// No tier would keep a cache: one tenant has all slots, or four tenants have one each.
TEST_P(EngineFairnessTest, AShortTurnWaitsForNoQuantumWhereNothingCanBeSaved) {
  for (const bool one_account : {true, false}) {
    Start({.slots = kSlots, .prefill_chunk = 64, .step_tokens = 64}, {});
    std::vector<SubmittedTurn> many;
    for (int i = 0; i < 8; ++i) {
      const std::string tenant = one_account ? "many" : std::string(1, static_cast<char>('a' + i % kSlots));
      many.push_back(Make(tenant, 40, 300));
    }
    const SubmittedTurn other = MakeCounted("one", 20, 8);
    const int64_t comes = steps_ + 12;
    AtStep(comes, [&] { Submit(other); });
    AtStep(steps_ + 1, [&] {
      for (size_t i = 1; i < many.size(); ++i) Submit(many[i]);
    });
    const int64_t before = network_.rows_computed();
    Submit(many[0]);
    ExpectRightTurn(other);
    EXPECT_LE(counting_.back()->first(), comes + 2 + (GetParam() ? 1 : 0));
    int64_t rows = Length(other);
    for (const SubmittedTurn& turn : many) {
      ExpectRightTurn(turn);
      rows += Length(turn);
    }
    // Its victim had computed its prompt and a few more tokens.
    EXPECT_LE(network_.rows_computed() - before, rows + 40 + 16);
    engine_.reset();
  }
}

// Consecutive short turns, each of which makes another tenant recompute its cache.
TEST_P(EngineFairnessTest, WhatIsComputedAgainIsPaidFor) {
  Start({.slots = 1, .prefill_chunk = 64, .step_tokens = 64}, {});
  const SubmittedTurn patient = Make("patient", 400, 800);
  std::vector<SubmittedTurn> visits;
  for (int i = 0; i < 40; ++i) visits.push_back(MakeCounted("visits", 4, 4));
  for (int64_t i = 0; i < std::ssize(visits); ++i) {
    AtStep(20 + 20 * i, [&, i] { Submit(visits[static_cast<size_t>(i)]); });
  }
  Submit(patient);
  ExpectRightTurn(patient);
  for (const SubmittedTurn& visit : visits) ExpectRightTurn(visit);
  EXPECT_LE(counting_[0]->first(), 20 + 2 + (GetParam() ? 1 : 0));
  EXPECT_LE(SettledStats().turns_preempted, 25u);
}

// Embedded or scored prompts, each in one slot: a short turn is scheduled in between.
TEST_P(EngineFairnessTest, EmbeddedAndScoredTurnsContinueAfterAPreemption) {
  for (const bool kept : {true, false}) {
    for (const bool embedded : {true, false}) {
      steps_ = 0;
      const EngineOptions options{.slots = 2, .prefill_chunk = 1, .step_tokens = 2};
      kept ? StartInMemory(options) : Start(options, {});
      std::vector<SubmittedTurn> many;
      for (int i = 0; i < 4; ++i) {
        many.push_back(Make("many", 28, 0));
        (embedded ? many.back().request.embedded : many.back().request.scored) = true;
        many.back().request.sampling.logprobs = embedded ? -1 : 1;
      }
      const SubmittedTurn other = MakeCounted("one", 1, 4);
      AtStep(10, [&] { Submit(other); });
      AtStep(1, [&] {
        for (size_t i = 1; i < many.size(); ++i) Submit(many[i]);
      });
      Submit(many[0]);
      ExpectRightTurn(other);
      if (kept) {
        EXPECT_LE(counting_.back()->first(), 10 + 2 + (GetParam() ? 1 : 0));
      }
      for (const SubmittedTurn& turn : many) {
        const TurnEnd end = turn.sink->Wait();
        EXPECT_NE(end.reason, FinishReason::kError) << end.error.ToString();
        EXPECT_EQ(end.rows_computed, std::ssize(turn.request.tokens));
        if (embedded) {
          EXPECT_EQ(turn.sink->embedding(), HashNetwork::ExpectedMean(turn.request.tokens, kWindow));
          continue;
        }
        const std::vector<OutputToken> scored = turn.sink->scored();
        ASSERT_EQ(scored.size(), turn.request.tokens.size());
        for (size_t i = 1; i < scored.size(); ++i) {
          const std::vector<TokenId> before(turn.request.tokens.begin(),
                                            turn.request.tokens.begin() + static_cast<ptrdiff_t>(i));
          EXPECT_EQ(scored[i].id, turn.request.tokens[i]);
          EXPECT_EQ(scored[i].top.at(0).id, HashNetwork::Expected(before, {}, kWindow)) << i;
        }
      }
      if (kept) {
        EXPECT_EQ(SettledStats().turns_preempted, 1u);
      }
      engine_.reset();
    }
  }
}

TEST_P(EngineFairnessTest, BeamsOfAnotherAccountDelayNoShortTurn) {
  std::vector<std::vector<TokenId>> found;
  for (const bool disturbed : {false, true}) {
    steps_ = 0;
    StartInMemory({.slots = kSlots, .prefill_chunk = 64, .step_tokens = 64});
    std::vector<SubmittedTurn> beams;
    for (size_t i = 0; i < 3; ++i) {
      beams.push_back(Turn(100 + i, 100 + i, Tokens(20, static_cast<uint32_t>(i)), 24));
      beams.back().request.tenant = "beams";
      beams.back().request.sampling.beams.width = 2;  // a turn takes all slots
    }
    ExpectRightTurn([&] {  // the tenant has been served more than the arriving one
      const SubmittedTurn before = Make("beams", 10, 1200);
      Submit(before);
      return before;
    }());
    Settle();
    const int64_t begins = steps_, comes = begins + 12;
    std::vector<SubmittedTurn> others;
    for (const int64_t at : {comes, comes + 30, comes + 60}) {
      if (!disturbed) break;
      others.push_back(MakeCounted("one", 8, 4));
      AtStep(at, [&, i = others.size() - 1] { Submit(others[i]); });
    }
    AtStep(begins + 1, [&] {
      for (size_t i = 1; i < beams.size(); ++i) Submit(beams[i]);
    });
    Submit(beams[0]);
    for (const SubmittedTurn& turn : others) ExpectRightTurn(turn);
    for (size_t i = 0; i < beams.size(); ++i) {
      const TurnEnd end = beams[i].sink->Wait();
      EXPECT_EQ(end.output.size(), 24u) << end.error.ToString();
      if (!disturbed) found.push_back(end.output);
      EXPECT_EQ(end.output, found[i]) << "as undisturbed";
    }
    if (disturbed) {
      EXPECT_LE(counting_[counting_.size() - 3]->first(), comes + 2 + (GetParam() ? 1 : 0));
      EXPECT_GE(SettledStats().turns_preempted, 1u);
    }
    engine_.reset();
  }
}

TEST_P(EngineFairnessTest, BranchesOfAnotherAccountDelayNoShortTurn) {
  StartInMemory({.slots = kSlots, .prefill_chunk = 64, .step_tokens = 64});
  std::vector<SubmittedTurn> answers;  // to one prompt
  for (size_t i = 0; i < 6; ++i) {
    answers.push_back(Turn(100 + i, 100 + i, Tokens(20, 1), 40));
    answers.back().request.tenant = "many";
    answers.back().request.may_branch = i > 0;
  }
  const SubmittedTurn other = MakeCounted("one", 8, 4);
  AtStep(4, [&] {
    for (size_t i = 1; i < answers.size(); ++i) Submit(answers[i]);
  });
  AtStep(12, [&] { Submit(other); });
  Submit(answers[0]);
  ExpectRightTurn(other);
  EXPECT_LE(counting_[0]->first(), 12 + 2 + (GetParam() ? 1 : 0));
  for (const SubmittedTurn& turn : answers) ExpectRightTurn(turn);
  EXPECT_EQ(SettledStats().turns_preempted, 1u);
}

TEST_P(EngineFairnessTest, WithoutTiersTheQuantumExceedsTheRecompute) {
  Start({.slots = 1, .prefill_chunk = 8, .step_tokens = 8}, {});
  const SubmittedTurn first = MakeCounted("a", 400, 60), second = MakeCounted("b", 400, 60);
  Submit(first);
  Submit(second);
  ExpectRightTurn(first);
  ExpectRightTurn(second);
  EXPECT_LE(network_.rows_computed(), 3 * Length(first));
}

TEST_P(EngineFairnessTest, PreemptedTurnMayBeCancelledOrClosed) {
  StartInMemory({.slots = 2, .prefill_chunk = 64, .step_tokens = 64});
  std::vector<SubmittedTurn> many = {Make("many", 10, 4000), Make("many", 10, 4000)};
  const SubmittedTurn other = Make("one", 10, 500);
  AtStep(20, [&] { Submit(other); });
  AtStep(60, [&] {
    engine_->Cancel(many[0].request.turn);
    engine_->Close(many[1].request.timeline);
  });
  AtStep(1, [&] { Submit(many[1]); });
  Submit(many[0]);
  for (const SubmittedTurn& turn : many) {
    const TurnEnd end = turn.sink->Wait();
    EXPECT_EQ(end.reason, FinishReason::kCancelled);
    ExpectRight(turn.request.tokens, end);
  }
  ExpectRightTurn(other);
  EXPECT_EQ(SettledStats().turns_preempted, 1u);
}

// Many tenants, few slots, slow copies.
class LaggingFairnessTest : public EngineFairnessTest {
 protected:
  void StartLagging(EngineOptions options) {
    tiers_ = std::make_unique<TieredStore>(std::make_unique<RamStore>(1 << 20), nullptr,
                                           TieredStoreOptions{.host_idle_ms = 0, .sweep_ms = 0});
    options.memory_len = kWindow.memory_len;
    options.pinned_max = 8;
    options.kv_dtype = DType::kF32;
    hashes_.OnStep([this] { Step(); });
    auto started =
        Engine::Start(lagging_network_, tokenizer_, options, {.tiers = tiers_.get(), .fetch_deadline_ms = kMinute});
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    engine_ = std::move(*started);
  }

  LaggingBackend lagging_{std::move(*MakeCpuBackend({.threads = 1}))};
  HashNetwork hashes_{lagging_, GetParam()};
  LaggingNetwork lagging_network_{lagging_, hashes_};
};
INSTANTIATE_TEST_SUITE_P(All, LaggingFairnessTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Ahead" : "InStep"; });

TEST_P(LaggingFairnessTest, EveryTokenIsCorrectUnderMutualPreemption) {
  StartLagging({.slots = 3, .prefill_chunk = 16, .step_tokens = 16});
  std::vector<SubmittedTurn> turns{MakeCounted("a", 5, 400)};  // it keeps the steps coming
  std::mt19937 random(3);
  for (int64_t i = 1; i < 60; ++i) {
    turns.push_back(MakeCounted(std::string(1, static_cast<char>('a' + random() % 5)), 5 + random() % 40,
                                1 + static_cast<int64_t>(random() % 90)));
    AtStep(4 * i, [&turns, i, this] { Submit(turns[static_cast<size_t>(i)]); });
  }
  Submit(turns[0]);
  for (const SubmittedTurn& turn : turns) ExpectRightTurn(turn);
  EXPECT_GT(SettledStats().turns_preempted, 5u);
  EXPECT_EQ(lagging_.waits(), 0) << "the engine's thread waited for a copy";
  int64_t rows = 0;
  for (const SubmittedTurn& turn : turns) rows += Length(turn);
  EXPECT_LE(hashes_.rows_computed(), rows + static_cast<int64_t>(SettledStats().turns_preempted) * 2);
}

TEST_P(LaggingFairnessTest, PreemptedBeamsGiveTheSameResult) {
  StartLagging({.slots = 4, .prefill_chunk = 16, .step_tokens = 16});
  for (const char* tenant : {"beams", "more beams"}) {  // they have been served more than the others
    SubmittedTurn before = Make(tenant, 5, 1200);
    Submit(before);
    ExpectRightTurn(before);
  }
  std::vector<std::vector<TokenId>> alone, found;
  std::vector<SubmittedTurn> beams, plain;
  for (const bool together : {false, true}) {
    for (TimelineId i = 0; i < 6; ++i) {
      const TimelineId timeline = 100 + i + (together ? 50 : 0);
      SubmittedTurn turn = Turn(timeline, timeline, Tokens(10 + 3 * i, static_cast<uint32_t>(i)), 24);
      turn.request.tenant = i % 2 == 0 ? "beams" : "more beams";
      turn.request.sampling.beams.width = 2;
      if (together) {
        beams.push_back(turn);
      } else {
        alone.push_back(Run(turn).output);
      }
    }
  }
  for (int64_t i = 0; i < 40; ++i) {
    plain.push_back(Make(std::string(1, static_cast<char>('a' + i % 3)), 4 + static_cast<size_t>(i % 20), 6));
    AtStep(steps_ + 5 + 12 * i, [&, i] { Submit(plain[static_cast<size_t>(i)]); });
  }
  plain.push_back(Make("long", 5, 400));  // it keeps the steps coming
  Submit(plain.back());
  for (const SubmittedTurn& turn : beams) Submit(turn);
  for (const SubmittedTurn& turn : beams) found.push_back(turn.sink->Wait().output);
  EXPECT_EQ(found, alone);
  for (const SubmittedTurn& turn : plain) ExpectRightTurn(turn);
  EXPECT_GT(SettledStats().turns_preempted, 5u);
  EXPECT_EQ(lagging_.waits(), 0) << "the engine's thread waited for a copy";
}

}  // namespace
}  // namespace ringside
