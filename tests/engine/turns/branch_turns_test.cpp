// Several answers to one prompt: the prompt is computed once, none of it is copied, and each answer equals that of a
// single request, whatever happens meanwhile to the conversation that holds the prompt.
#include <gtest/gtest.h>

#include <future>
#include <optional>
#include <random>
#include <unordered_map>

#include "tests/engine/counting_backend.h"
#include "tests/engine/engine_harness.h"
#include "tests/engine/hash_network.h"
#include "tests/engine/model/model_run.h"
#include "tests/engine/tiers/tiers_harness.h"
#include "tests/engine/turns/acting_sink.h"
#include "tests/golden_folder.h"
#include "tests/kernels/devices.h"

namespace ringside {
namespace {

// On a network in which every wrong row becomes a wrong token, with and without run-ahead.
class BranchTurnsTest : public ::testing::TestWithParam<std::string> {
 protected:
  static constexpr RingWindow kWindow{4, 40, Eviction::kToken};  // in a ring of 48 rows

  void Start(int64_t slots, int64_t kv_bytes = 0, TieredStore* tiers = nullptr, int64_t memory_len = 40,
             bool branches = true) {
    engine_.reset();
    network_.emplace(backend_, /*runs_ahead=*/GetParam() == "runs_ahead", branches);
    const EngineOptions options{.slots = slots,
                                .kv_bytes = kv_bytes,
                                .memory_len = memory_len,
                                .pinned_max = 8,
                                .prefill_chunk = 8,
                                .step_tokens = 64,
                                .kv_dtype = DType::kF32};
    auto started = Engine::Start(*network_, tokenizer_, options, {.tiers = tiers, .fetch_deadline_ms = 60'000});
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    engine_ = std::move(*started);
  }
  void TearDown() override { engine_.reset(); }

  static std::vector<TokenId> Joined(std::vector<TokenId> a, const std::vector<TokenId>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }
  SubmittedTurn Turn(TimelineId timeline, std::vector<TokenId> tokens, int64_t max_tokens, bool may_branch = false,
                     RingWindow window = kWindow) {
    SubmittedTurn turn = GreedyTurn(++last_turn_, timeline, std::move(tokens), {}, window, max_tokens);
    turn.request.owner = Owner(timeline);
    turn.request.may_branch = may_branch;
    return turn;
  }
  static std::string Owner(TimelineId timeline) { return "conv_" + std::to_string(timeline); }
  void Submit(const SubmittedTurn& turn) {
    const Status accepted = engine_->Submit(turn.request);
    ASSERT_TRUE(accepted.ok()) << accepted.ToString();
  }
  /// Submits the turn, and acts when `tokens` of its tokens have been delivered.
  void SubmitAndAct(SubmittedTurn turn, size_t tokens, std::function<void()> act) {
    turn.request.sink = std::make_shared<ActingSink>(turn.sink, tokens, std::move(act));
    Submit(turn);
  }
  /// For a long answer in a wide window, checks every `every`-th token and the last: checking all would take too long.
  static void ExpectRight(const SubmittedTurn& turn, size_t every = 1) {
    const TurnEnd end = turn.sink->Wait();
    if (end.reason != FinishReason::kCancelled) {
      EXPECT_EQ(std::ssize(end.output), turn.request.max_tokens) << end.error.ToString();
    }
    std::vector<TokenId> tokens = turn.request.tokens;
    for (size_t i = 0; i < end.output.size(); ++i) {
      if (i % every == 0 || i + 1 == end.output.size()) {
        ASSERT_EQ(end.output[i], HashNetwork::Expected(tokens, {}, turn.request.window))
            << "after " << tokens.size() << " tokens";
      }
      tokens.push_back(end.output[i]);
    }
  }
  /// Waits until the engine has processed all messages: gauges are published between two polls of its inbox.
  EngineStats Stats() {
    for (int i = 0; i < 3; ++i) {
      std::promise<void> told;
      engine_->Ping([&] { told.set_value(); });
      told.get_future().wait();
    }
    return engine_->stats();
  }

  CountingBackend backend_{testing::MakeDevice(GetParam().starts_with("cuda") ? GetParam() : "cpu")};
  LetterTokenizer tokenizer_{HashNetwork::kVocab};
  std::optional<HashNetwork> network_;
  std::unique_ptr<Engine> engine_;
  TurnId last_turn_ = 0;
};

INSTANTIATE_TEST_SUITE_P(All, BranchTurnsTest, ::testing::Values("waits", "runs_ahead"),
                         [](const auto& info) { return info.param; });

TEST_P(BranchTurnsTest, BranchReadsTheHistoryInPlace) {
  const KvShape shape = MakeKvShape(2, 1, 2, DType::kF32, 8, 40, 8);
  for (const size_t length : {6, 16, 37, 48, 300}) {  // including a ring that has wrapped
    Start(3);
    const SubmittedTurn first = Turn(1, Tokens(length, 1), 150), second = Turn(2, Tokens(length, 1), 60, true);
    backend_.copied = 0;
    SubmitAndAct(first, 3, [&] { Submit(second); });
    ExpectRight(second);
    ExpectRight(first);
    const CacheReport start = second.sink->start();
    EXPECT_EQ(start.source, CacheSource::kSlot);
    EXPECT_EQ(start.tokens_reused, static_cast<int64_t>(length) - 1);
    EXPECT_EQ(start.tokens_computed, 1);
    EXPECT_LE(backend_.copied, shape.tile_bytes());
    EXPECT_EQ(Stats().slots_used, 1) << "a branch ends with its turn";
    EXPECT_EQ(engine_->stats().tokens_shared, length - 1);
    // Both the branch and its source continue afterwards.
    for (const SubmittedTurn* turn : {&second, &first}) {
      const std::vector<TokenId> said = Joined(turn->request.tokens, turn->sink->Wait().output);
      const SubmittedTurn next = Turn(turn->request.timeline, Joined(said, {9}), 20);
      Submit(next);
      ExpectRight(next);
    }
  }
}

TEST_P(BranchTurnsTest, NetworkWithoutBranchesCopies) {
  Start(3, 0, nullptr, 200, /*branches=*/false);
  constexpr RingWindow kWide{4, 200, Eviction::kToken};
  const SubmittedTurn first = Turn(1, Tokens(100, 1), 60, false, kWide),
                      second = Turn(2, Tokens(100, 1), 20, true, kWide);
  SubmitAndAct(first, 3, [&] { Submit(second); });
  ExpectRight(second);
  ExpectRight(first);
  EXPECT_EQ(second.sink->start().tokens_reused, 99);
  EXPECT_EQ(Stats().slots_used, 2);
}

TEST_P(BranchTurnsTest, ForkForABranchCopiesNothing) {
  TieredStore tiers(std::make_unique<RamStore>(64 << 20), nullptr,
                    TieredStoreOptions{.host_idle_ms = 0, .sweep_ms = 0});
  constexpr RingWindow kWide{4, 200, Eviction::kToken};  // the first's answer overwrites none of its prompt
  for (const int64_t slots : {1, 3}) {                   // with one slot there are no branches
    Start(slots, 0, &tiers, kWide.memory_len);
    const SubmittedTurn first = Turn(1, Tokens(30, 1), 60, false, kWide);
    SubmittedTurn second = Turn(2, Tokens(30, 1), 20, true, kWide);
    second.request.forked_from = 1;
    second.request.forked_owner = Owner(1);
    SubmitAndAct(first, 3, [&] { Submit(second); });
    ExpectRight(second);
    ExpectRight(first);
    EXPECT_EQ(second.sink->start().tokens_reused, 29);
    EXPECT_EQ(second.sink->start().source, slots == 1 ? CacheSource::kHost : CacheSource::kSlot);
    if (slots > 1) {
      EXPECT_EQ(Stats().captures, 0u);
    }
    engine_.reset();
  }
}

TEST_P(BranchTurnsTest, PreemptsAnOvertakenBranch) {
  Start(3);
  // While the ring of 48 rows has not wrapped it may lag far; afterwards its rows are overwritten.
  const SubmittedTurn first = Turn(1, Tokens(30, 1), 100), second = Turn(2, Tokens(30, 1), 100, true);
  SubmitAndAct(first, 15, [&] { Submit(second); });
  ExpectRight(second);
  ExpectRight(first);
  EXPECT_EQ(Stats().turns_preempted_for_memory, 1u);
}

TEST_P(BranchTurnsTest, HistoryMayCloseOrFailDuringBranches) {
  for (const bool closes : {true, false}) {
    Start(4);
    const SubmittedTurn first = Turn(1, Tokens(30, 1), 100), second = Turn(2, Tokens(30, 1), 60, true),
                        third = Turn(3, Tokens(30, 1), 70, true);
    SubmitAndAct(first, 3, [&] {
      Submit(third);
      SubmitAndAct(second, 5, [&] { closes ? engine_->Close(1) : engine_->Cancel(first.request.turn); });
    });
    for (const SubmittedTurn* turn : {&first, &second, &third}) ExpectRight(*turn);
    EXPECT_EQ(first.sink->Wait().reason, FinishReason::kCancelled);
    EXPECT_EQ(Stats().turns_preempted_for_memory, closes ? 2u : 0u);
    for (TimelineId timeline = 1; timeline <= 3; ++timeline) engine_->Close(timeline);
    EXPECT_EQ(Stats().kv_bytes_used, 0);
  }
}

TEST_P(BranchTurnsTest, FailedTurnIsNotBranchedFrom) {
  Start(3);
  const SubmittedTurn first = Turn(1, Tokens(30, 1), 60), second = Turn(2, Tokens(30, 1), 20, true);
  // Step 7 fails. With run-ahead, step 8 has been launched by then.
  int step = 0;
  network_->OnStep([&] {
    ++step;
    if (step == (network_->runs_ahead() ? 8 : 7)) Submit(second);
    network_->PoisonLogits(step == 7);
  });
  Submit(first);
  EXPECT_EQ(first.sink->Wait().reason, FinishReason::kError);
  ExpectRight(second);
  EXPECT_EQ(second.sink->start().tokens_reused, 0);
}

TEST_P(BranchTurnsTest, HistoryContinuesAfterItsBranchesEnd) {
  Start(3);
  const SubmittedTurn first = Turn(1, Tokens(30, 1), 8), second = Turn(2, Tokens(30, 1), 80, true);
  SubmittedTurn edited = Turn(1, Joined(Tokens(20, 1), {1, 2, 3}), 30);  // which rewinds its history
  std::atomic<bool> ended{false};
  edited.request.sink = std::make_shared<ActingSink>(edited.sink, 0, [&] { ended = second.sink->ids().size() == 80; });
  SubmitAndAct(first, 3, [&] { SubmitAndAct(second, 20, [&] { Submit(edited); }); });
  for (const SubmittedTurn& turn : {first, second, edited}) ExpectRight(turn);
  EXPECT_TRUE(ended);
}

TEST_P(BranchTurnsTest, DoesNotBranchAcrossAccountsOrWindows) {
  Start(4);
  SubmittedTurn first = Turn(1, Tokens(30, 1), 60), tenant = Turn(2, Tokens(30, 1), 9, true),
                window = Turn(3, Tokens(30, 1), 9, true, {4, 39, Eviction::kToken});
  tenant.request.tenant = "another's";
  SubmitAndAct(first, 3, [&] {
    Submit(tenant);
    Submit(window);
  });
  for (const SubmittedTurn* turn : {&first, &tenant, &window}) ExpectRight(*turn);
  EXPECT_EQ(tenant.sink->start().tokens_reused, 0);
  EXPECT_EQ(window.sink->start().tokens_reused, 0);
}

// Groups of answers start and end, with few slots, or memory of two windows in which they grow; histories are
// continued, edited, closed, parked and saved while others read them.
TEST_P(BranchTurnsTest, ManyBranchesAreCorrect) {
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    TieredStore tiers(std::make_unique<RamStore>(64 << 20), nullptr,
                      TieredStoreOptions{.host_idle_ms = 0, .sweep_ms = 0});
    const bool tight = seed % 2 == 0;
    const RingWindow window{4, tight ? 300 : 40, Eviction::kToken};
    const KvShape shape = MakeKvShape(2, 1, 2, DType::kF32, 8, window.memory_len, 8);
    Start(2 + static_cast<int64_t>(seed), tight ? 2 * KvPool::SlabBytes(backend_, shape) : 0,
          seed % 3 == 0 ? &tiers : nullptr, window.memory_len);
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return random() % n; };
    std::vector<SubmittedTurn> turns;
    std::unordered_map<TimelineId, size_t> last;  // turn of a timeline
    for (int step = 0; step < 40; ++step) {
      const TimelineId timeline = 1 + below(5);
      const auto what = below(10);
      const auto found = last.find(timeline);
      if (found != last.end() && what < 2) {
        engine_->Cancel(turns[found->second].request.turn);
      } else if (found != last.end() && what == 2) {
        below(2) == 0 ? engine_->Close(timeline) : engine_->Park(timeline);
      } else {
        std::vector<TokenId> tokens = Tokens(8 + below(120), static_cast<uint32_t>(timeline));
        if (found != last.end()) {  // continues, or rewinds partially
          const SubmittedTurn& before = turns[found->second];
          tokens = Joined(before.request.tokens, before.sink->Wait().output);
          tokens.resize(tokens.size() - below(3) * tokens.size() / 4);
          tokens.push_back(static_cast<TokenId>(below(HashNetwork::kVocab)));
        }
        last[timeline] = turns.size();
        turns.push_back(Turn(timeline, tokens, 1 + static_cast<int64_t>(below(60)), false, window));
        Submit(turns.back());
        if (below(2) == 0) turns.back().sink->WaitForTokens(1);
        for (size_t more = below(4); more > 0; --more) {
          turns.push_back(Turn(100 + turns.size(), tokens, 1 + static_cast<int64_t>(below(60)), true, window));
          Submit(turns.back());
        }
      }
    }
    for (const SubmittedTurn& turn : turns) ExpectRight(turn, tight ? 17 : 1);
    for (const SubmittedTurn& turn : turns) engine_->Close(turn.request.timeline);
    EXPECT_EQ(Stats().kv_bytes_used, 0);
    EXPECT_EQ(engine_->stats().slots_used, 0);
    engine_.reset();
  }
}

// On devices that compute a row with the same bits in every batch.
class ModelBranchTurns : public BranchTurnsTest {
 protected:
  void SetUp() override {
    if (!backend_.has_device()) GTEST_SKIP() << "no " << GetParam() << " here";
  }
};
INSTANTIATE_TEST_SUITE_P(All, ModelBranchTurns, ::testing::Values("cpu", "cuda_bf16_fixed"),
                         [](const auto& info) { return info.param; });

// A real model: each answer has the bits of one that is sampled alone.
TEST_P(ModelBranchTurns, CopiesNothingOfALongHistory) {
  auto model = Model::Load(GoldenFolder("llama"), backend_);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  const ModelSpec& spec = (*model)->spec();
  const LetterTokenizer tokenizer(spec.vocab);
  constexpr RingWindow kLong{4, 2048, Eviction::kTurn};
  const EngineOptions options{.slots = 10,
                              .memory_len = kLong.memory_len,
                              .pinned_max = 8,
                              .prefill_chunk = 32,
                              .step_tokens = 64,
                              .kv_dtype = backend_.activation_dtype()};
  auto started = Engine::Start(**model, tokenizer, options, {});
  ASSERT_TRUE(started.ok()) << started.status().ToString();
  engine_ = std::move(*started);
  const KvShape shape =
      MakeKvShape(spec.layers, spec.kv_heads, spec.head_dim, backend_.activation_dtype(), 8, kLong.memory_len, 32);

  const std::vector<TokenId> prompt = ScatteredIds(2000, spec.vocab, 7);
  const auto draws = [&](TimelineId timeline, uint64_t choice) {
    SubmittedTurn turn = Turn(timeline, prompt, 40, choice > 0, kLong);
    turn.request.sampling = {.temperature = 1.5, .seed = 11 + choice, .logprobs = 3};
    return turn;
  };
  std::vector<SubmittedTurn> choices;
  for (uint64_t choice = 0; choice < 4; ++choice) choices.push_back(draws(1 + choice, choice));
  SubmitAndAct(choices[0], 1, [&] {
    backend_.copied = 0;
    for (size_t i = 1; i < choices.size(); ++i) Submit(choices[i]);
  });
  for (const SubmittedTurn& choice : choices) choice.sink->Wait();
  EXPECT_LE(backend_.copied, 3 * shape.tile_bytes());
  EXPECT_EQ(Stats().tokens_prefilled, 2000u);  // each other's last prompt token counts as part of its answer
  for (size_t i = 1; i < choices.size(); ++i) {
    EXPECT_EQ(choices[i].sink->start().tokens_reused, 1999);
    EXPECT_NE(choices[i].sink->ids(), choices[0].sink->ids());
  }
  SubmittedTurn alone = draws(100, 3);
  alone.request.tenant = "another's";  // which shares nothing
  Submit(alone);
  EXPECT_EQ(choices[3].sink->Wait().output, alone.sink->Wait().output);
  EXPECT_EQ(choices[3].sink->logprobs(), alone.sink->logprobs());
  EXPECT_EQ(alone.sink->start().tokens_reused, 0);
  engine_.reset();
}

}  // namespace
}  // namespace ringside
