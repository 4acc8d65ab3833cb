// Memory that grows with the conversations' tokens: more conversations than slabs would fit, eviction and return, pages
// with another conversation's rows, and a device out of memory. The hash network turns every wrong row into a wrong
// token.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/engine/engine_harness.h"
#include "tests/engine/hash_network.h"
#include "tests/engine/lagging_backend.h"
#include "tests/engine/tiers/tiers_harness.h"

namespace ringside {
namespace {

// Committed memory is not zeroed, like pages of another conversation.
class UsedPages final : public ForwardingBackend {
 public:
  UsedPages() : ForwardingBackend(std::move(*MakeCpuBackend({.threads = 1}))) {}
  Status Commit(void* data, size_t bytes) override {
    if (fails_after >= 0 && fails_after-- == 0) return Unavailable("the device has no page");
    RETURN_IF_ERROR(ForwardingBackend::Commit(data, bytes));
    std::memset(data, 0xff, bytes);
    committed += static_cast<int64_t>(bytes);
    most_committed = std::max(most_committed.load(), committed.load());
    return Status::Ok();
  }
  void Decommit(void* data, size_t bytes) override {
    committed -= static_cast<int64_t>(bytes);
    ForwardingBackend::Decommit(data, bytes);
  }

  std::atomic<int64_t> fails_after{-1};  // number of commits before failures
  std::atomic<int64_t> committed{0}, most_committed{0};
};

enum class Copies { kAtOnce, kLagging };

// Synchronous or lagging copies; a network in step or with run-ahead; with or without tiers.
class EngineMemoryTest : public ::testing::TestWithParam<std::tuple<Copies, bool, bool>> {
 protected:
  static constexpr RingWindow kWindow{4, 600, Eviction::kToken};
  static constexpr int64_t kPage = 4096;  // 8 tiles of 512 bytes; a window takes 5 pages

  void Start(int64_t slots, int64_t pages) {
    const auto [copies, ahead, tiers] = GetParam();
    auto used = std::make_unique<UsedPages>();
    pages_ = used.get();
    lagging_ = std::make_unique<LaggingBackend>(std::move(used));
    hashes_ =
        std::make_unique<HashNetwork>(copies == Copies::kLagging ? *lagging_ : static_cast<Backend&>(*pages_), ahead);
    lagging_network_ = std::make_unique<LaggingNetwork>(*lagging_, *hashes_);
    Network& network = copies == Copies::kLagging ? static_cast<Network&>(*lagging_network_) : *hashes_;
    EngineStorage storage{.fetch_deadline_ms = 60'000};
    if (tiers) {
      tiers_ = std::make_unique<TieredStore>(std::make_unique<RamStore>(64 << 20), nullptr,
                                             TieredStoreOptions{.host_idle_ms = 0, .sweep_ms = 0});
      storage.tiers = tiers_.get();
    }
    const EngineOptions options{.slots = slots,
                                .kv_bytes = pages * kPage,
                                .memory_len = kWindow.memory_len,
                                .pinned_max = 8,
                                .prefill_chunk = 16,
                                .step_tokens = 64,
                                .kv_dtype = DType::kF32};
    auto started = Engine::Start(network, tokenizer_, options, storage);
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    engine_ = std::move(*started);
  }
  /// Waits until the engine has processed all messages: gauges are published between two polls of its inbox.
  void WaitForSilence() {
    for (int i = 0; i < 3; ++i) {
      std::promise<void> told;
      engine_->Ping([&] { told.set_value(); });
      told.get_future().wait();
    }
  }
  bool HasTiers() const { return std::get<2>(GetParam()); }
  void TearDown() override { engine_.reset(); }  // before the backend

  SubmittedTurn Submit(TimelineId timeline, std::vector<TokenId> tokens, int64_t max_tokens) {
    SubmittedTurn turn = GreedyTurn(next_turn_++, timeline, std::move(tokens), {}, kWindow, max_tokens);
    turn.request.owner = "conv_" + std::to_string(timeline);
    const Status accepted = engine_->Submit(turn.request);
    EXPECT_TRUE(accepted.ok()) << accepted.ToString();
    return turn;
  }
  /// Checks a sample of the tokens, including the last: checking all would take too long.
  static std::vector<TokenId> ExpectRight(const SubmittedTurn& turn, const TurnEnd& end) {
    std::vector<TokenId> tokens = turn.request.tokens;
    for (size_t i = 0; i < end.output.size(); ++i) {
      if (i % 61 == 0 || i + 1 == end.output.size()) {
        EXPECT_EQ(end.output[i], HashNetwork::Expected(tokens, {}, kWindow)) << "after " << tokens.size() << " tokens";
      }
      tokens.push_back(end.output[i]);
    }
    return tokens;
  }

  LetterTokenizer tokenizer_{HashNetwork::kVocab};
  UsedPages* pages_ = nullptr;
  std::unique_ptr<LaggingBackend> lagging_;
  std::unique_ptr<HashNetwork> hashes_;
  std::unique_ptr<LaggingNetwork> lagging_network_;
  std::unique_ptr<TieredStore> tiers_;
  std::unique_ptr<Engine> engine_;
  TurnId next_turn_ = 1;
};
INSTANTIATE_TEST_SUITE_P(All, EngineMemoryTest,
                         ::testing::Combine(::testing::Values(Copies::kAtOnce, Copies::kLagging), ::testing::Bool(),
                                            ::testing::Bool()),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) == Copies::kLagging ? "Lagging" : "AtOnce") +
                                  (std::get<1>(info.param) ? "Ahead" : "InStep") +
                                  (std::get<2>(info.param) ? "Tiers" : "NoTiers");
                         });

TEST_P(EngineMemoryTest, ManyShortConversationsShareTheMemoryOfOneSlab) {
  Start(8, 9);
  std::vector<SubmittedTurn> turns;
  for (TimelineId id = 1; id <= 8; ++id) turns.push_back(Submit(id, Tokens(40, static_cast<uint32_t>(id)), 60));
  for (const SubmittedTurn& turn : turns) {
    const TurnEnd end = turn.sink->Wait();
    EXPECT_EQ(end.reason, FinishReason::kLength) << end.error.ToString();
    ExpectRight(turn, end);
  }
  engine_->Ping([] {});
  const EngineStats stats = engine_->stats();
  EXPECT_EQ(stats.kv_bytes, 9 * kPage);
  EXPECT_EQ(stats.turns_preempted_for_memory, 0u);
  EXPECT_EQ(stats.slots_taken, 0u) << "nobody had to leave";
  EXPECT_LE(pages_->most_committed, 9 * kPage);
}

TEST_P(EngineMemoryTest, NewestTurnIsPreemptedAndResumes) {
  Start(4, 6);
  std::vector<SubmittedTurn> turns;
  for (TimelineId id = 1; id <= 3; ++id) turns.push_back(Submit(id, Tokens(30, static_cast<uint32_t>(id)), 420));
  for (const SubmittedTurn& turn : turns) {
    const TurnEnd end = turn.sink->Wait();
    EXPECT_EQ(end.reason, FinishReason::kLength) << end.error.ToString();
    ASSERT_EQ(end.output.size(), 420u);
    EXPECT_EQ(turn.sink->ids(), end.output) << "told once, each";
    EXPECT_EQ(end.report.source, CacheSource::kNew);
    EXPECT_EQ(end.report.position, 450);
    ExpectRight(turn, end);
  }
  const EngineStats stats = engine_->stats();
  EXPECT_GT(stats.turns_preempted_for_memory, 0u);
  EXPECT_LE(pages_->most_committed, 6 * kPage);
  // Saved rows are not recomputed, except for the last token.
  if (HasTiers()) {
    EXPECT_LE(hashes_->rows_computed(), 3 * 450 + 40);
  }
}

TEST_P(EngineMemoryTest, WaitingCachesDoNotDeadlock) {
  Start(4, 6);
  std::vector<std::vector<TokenId>> tokens(3);
  for (TimelineId id = 1; id <= 2; ++id) {
    const SubmittedTurn turn = Submit(id, Tokens(300, static_cast<uint32_t>(id)), 2);
    tokens[id] = ExpectRight(turn, turn.sink->Wait());
  }
  std::vector<SubmittedTurn> turns;
  for (TimelineId id = 1; id <= 2; ++id) {
    for (const TokenId more : Tokens(200, 9)) tokens[id].push_back(more);
    turns.push_back(Submit(id, tokens[id], 30));
  }
  for (const SubmittedTurn& turn : turns) {
    const TurnEnd end = turn.sink->Wait();
    EXPECT_EQ(end.reason, FinishReason::kLength) << end.error.ToString();
    ExpectRight(turn, end);
  }
}

TEST_P(EngineMemoryTest, PreemptedPromptIsScoredOnce) {
  Start(4, 5);
  std::vector<SubmittedTurn> turns;
  for (TimelineId id = 1; id <= 2; ++id) turns.push_back(Submit(id, Tokens(30, static_cast<uint32_t>(id)), 420));
  turns[0].sink->WaitForTokens(75);  // close to the next page
  SubmittedTurn scored = GreedyTurn(next_turn_++, 3, Tokens(300, 3), {}, kWindow, 150);
  scored.request.scored = true;
  scored.request.sampling.logprobs = 1;
  ASSERT_TRUE(engine_->Submit(scored.request).ok());
  turns.push_back(scored);
  for (const SubmittedTurn& turn : turns) {
    const TurnEnd end = turn.sink->Wait();
    EXPECT_EQ(end.reason, FinishReason::kLength) << end.error.ToString();
    ExpectRight(turn, end);
  }
  const std::vector<OutputToken> told = scored.sink->scored();
  ASSERT_EQ(told.size(), 300u);
  for (size_t i = 1; i < told.size(); ++i) {
    ASSERT_EQ(told[i].id, scored.request.tokens[i]);
    const std::vector<TokenId> before(scored.request.tokens.begin(),
                                      scored.request.tokens.begin() + static_cast<ptrdiff_t>(i));
    if (i % 16 != 0) continue;
    ASSERT_EQ(told[i].top.at(0).id, HashNetwork::Expected(before, {}, kWindow)) << i;
  }
  EXPECT_GT(engine_->stats().turns_preempted_for_memory, 0u);
}

TEST_P(EngineMemoryTest, WrappedWindowUsesTheWholeSlab) {
  Start(4, 5);
  const SubmittedTurn turn = Submit(1, Tokens(500, 1), 700);
  const TurnEnd end = turn.sink->Wait();
  EXPECT_EQ(end.reason, FinishReason::kLength) << end.error.ToString();
  ExpectRight(turn, end);
  EXPECT_EQ(pages_->committed, 5 * kPage);
}

TEST_P(EngineMemoryTest, PreemptedTurnsCanBeCancelledAndClosed) {
  Start(4, 6);
  std::vector<SubmittedTurn> turns;
  for (TimelineId id = 1; id <= 3; ++id) turns.push_back(Submit(id, Tokens(30, static_cast<uint32_t>(id)), 420));
  while (engine_->stats().turns_preempted_for_memory == 0) std::this_thread::yield();
  engine_->Cancel(turns[2].request.turn);
  const TurnEnd cancelled = turns[2].sink->Wait();
  EXPECT_EQ(turns[2].sink->ids(), cancelled.output);
  ExpectRight(turns[2], cancelled);
  engine_->Close(2);
  ExpectRight(turns[1], turns[1].sink->Wait());
  const TurnEnd end = turns[0].sink->Wait();
  EXPECT_EQ(end.reason, FinishReason::kLength) << end.error.ToString();
  ExpectRight(turns[0], end);
}

TEST_P(EngineMemoryTest, FailedPageAllocationEndsOnlyItsTurn) {
  Start(4, 20);
  const SubmittedTurn lasting = Submit(1, Tokens(30, 1), 90);
  lasting.sink->WaitForTokens(2);
  Submit(3, Tokens(30, 3), 1).sink->Wait();  // in the last slot that has memory from the start
  pages_->fails_after = 0;
  const TurnEnd refused = Submit(2, Tokens(200, 2), 5).sink->Wait();
  EXPECT_EQ(refused.reason, FinishReason::kError);
  EXPECT_EQ(refused.error.code(), StatusCode::kUnavailable) << refused.error.ToString();
  const SubmittedTurn again = Submit(2, Tokens(200, 2), 5);
  ExpectRight(again, again.sink->Wait());
  ExpectRight(lasting, lasting.sink->Wait());
  for (TimelineId id = 1; id <= 3; ++id) engine_->Close(id);
  WaitForSilence();
  EXPECT_EQ(engine_->stats().kv_bytes_used, 0);
}

// Random growth, rewinds, forks, cancels and erasures, with memory for only a few conversations.
TEST_P(EngineMemoryTest, RandomOperationsLoseNoPageAndCorruptNoRow) {
  Start(7, 11);
  std::mt19937 random(5);
  struct Talk {
    TimelineId timeline = 0;
    std::vector<TokenId> tokens;
    std::optional<SubmittedTurn> turn;
  };
  std::vector<Talk> talks(10);
  TimelineId next = 1;
  for (Talk& talk : talks) talk.timeline = next++;
  const auto finish = [&](Talk& talk) {
    const TurnEnd end = talk.turn->sink->Wait();
    ASSERT_NE(end.reason, FinishReason::kError) << end.error.ToString();
    talk.tokens = ExpectRight(*talk.turn, end);
    talk.turn.reset();
  };
  for (int step = 0; step < 260; ++step) {
    Talk& talk = talks[random() % talks.size()];
    if (talk.turn) {
      if (random() % 4 == 0) engine_->Cancel(talk.turn->request.turn);
      finish(talk);
      if (HasFatalFailure()) return;
    }
    switch (random() % 12) {
      case 0:
        talk.tokens.resize(talk.tokens.size() / 2);
        break;
      case 1: {
        const TimelineId fork = next++;
        engine_->Fork(talk.timeline, fork, "conv_" + std::to_string(talk.timeline), "conv_" + std::to_string(fork));
        talk.timeline = fork;
        break;
      }
      case 2:
        engine_->Erase(talk.timeline, "conv_" + std::to_string(talk.timeline), nullptr);
        break;
      case 3:
        engine_->Park(talk.timeline);
        break;
      default:
        break;
    }
    if (talk.tokens.size() > 700) talk.tokens.resize(10);
    for (const TokenId more : Tokens(1 + random() % 90, static_cast<uint32_t>(step))) talk.tokens.push_back(more);
    talk.turn = Submit(talk.timeline, talk.tokens, 1 + static_cast<int64_t>(random() % 60));
  }
  for (Talk& talk : talks) {
    if (talk.turn) finish(talk);
  }
  EXPECT_LE(pages_->most_committed, 11 * kPage);
  for (TimelineId id = 1; id < next; ++id) engine_->Close(id);
  WaitForSilence();
  EXPECT_EQ(engine_->stats().kv_bytes_used, 0);
  EXPECT_EQ(engine_->stats().slots_used, 0);
}

}  // namespace
}  // namespace ringside
