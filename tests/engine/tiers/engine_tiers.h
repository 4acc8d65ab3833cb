// The fixture of engine tests with tiers: the hash network, in-memory tiers behind a gate, and turns checked against
// the definition.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/engine/engine_harness.h"
#include "tests/engine/hash_network.h"
#include "tests/engine/tiers/tiers_harness.h"

namespace ringside {

// On a network in step, or with run-ahead.
class EngineTiersTest : public ::testing::TestWithParam<bool> {
 protected:
  static constexpr RingWindow kWindow{4, 24, Eviction::kTurn};
  static constexpr int64_t kMinute = 60'000, kMeasured = -1;  // deadlines

  // Tiers in memory: `host` and, behind a gate, `disk`.
  void StartInMemory(EngineOptions options, EngineStorage storage = {}, int64_t host_bytes = 1 << 20,
                     const Clock& clock = SystemClock::Instance(), TieredStoreOptions limits = {}) {
    auto disk = std::make_unique<GatedStore>(1 << 20);
    gate_ = disk.get();
    limits.host_idle_ms = limits.sweep_ms = 0;
    tiers_ = std::make_unique<TieredStore>(std::make_unique<RamStore>(host_bytes), std::move(disk), limits);
    storage.tiers = tiers_.get();
    // On any machine, however busy: stored caches are restored.
    if (storage.fetch_deadline_ms == 0) storage.fetch_deadline_ms = kMinute;
    if (storage.fetch_deadline_ms == kMeasured) storage.fetch_deadline_ms = 0;
    Start(options, storage, clock);
  }
  void Start(EngineOptions options, EngineStorage storage, const Clock& clock = SystemClock::Instance()) {
    options.memory_len = kWindow.memory_len;
    options.pinned_max = 8;
    options.kv_dtype = DType::kF32;
    auto started = Engine::Start(network_, tokenizer_, options, storage, clock);
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    engine_ = std::move(*started);
  }
  static SubmittedTurn Turn(TurnId turn, TimelineId timeline, std::vector<TokenId> tokens, int64_t max_tokens) {
    SubmittedTurn out = GreedyTurn(turn, timeline, std::move(tokens), {}, kWindow, max_tokens);
    out.request.owner = Owner(timeline);
    out.request.tenant = Owner(timeline);  // separate tenants, so that none reuses another's slot
    return out;
  }
  static std::string Owner(TimelineId timeline) { return "conv_" + std::to_string(timeline); }
  TurnEnd Run(const SubmittedTurn& turn) {
    const Status accepted = engine_->Submit(turn.request);
    EXPECT_TRUE(accepted.ok()) << accepted.ToString();
    return accepted.ok() ? turn.sink->Wait() : TurnEnd{};
  }
  /// A turn of `n` tokens and one sampled token, on a new timeline.
  TurnEnd Say(TimelineId timeline, size_t n = 30) { return Run(Turn(1000 + timeline, timeline, Tokens(n, 1), 1)); }
  /// Continues the timeline of Say: its tokens, the sampled one, one more.
  TurnEnd Resume(TimelineId timeline, size_t n = 30) {
    std::vector<TokenId> tokens = Tokens(n, 1);
    tokens.push_back(HashNetwork::Expected(tokens, {}, kWindow));
    tokens.push_back(5);
    const TurnEnd end = Run(Turn(2000 + timeline, timeline, tokens, 6));
    ExpectRight(tokens, end);
    return end;
  }
  static void ExpectRight(std::vector<TokenId> tokens, const TurnEnd& end) {
    for (const TokenId id : end.output) {
      ASSERT_EQ(id, HashNetwork::Expected(tokens, {}, kWindow)) << "after " << tokens.size() << " tokens";
      tokens.push_back(id);
    }
  }
  /// Checks the report of a Resume whose stored cache held the first `n` of its 32 tokens.
  static void ExpectResumed(const TurnEnd& end, CacheSource source, int64_t n = 30) {
    EXPECT_EQ(end.reason, FinishReason::kLength) << end.error.ToString();
    EXPECT_EQ(end.report.source, source);
    EXPECT_EQ(end.report.tokens_reused, n);
    EXPECT_EQ(end.report.tokens_computed, 32 - n);
  }
  static void ExpectRecomputed(const TurnEnd& end, int64_t n = 32) {
    EXPECT_EQ(end.reason, FinishReason::kLength) << end.error.ToString();
    EXPECT_EQ(end.report.source, CacheSource::kRecomputed);
    EXPECT_EQ(end.report.tokens_reused, 0);
    EXPECT_EQ(end.report.tokens_computed, n);
    EXPECT_EQ(end.report.restore_ms, 0);
  }
  /// Waits until everything requested so far has happened and its statistics are published: when the engine reads the
  /// second of two messages, the step that began with the first is over.
  void Settle() {
    for (int i = 0; i < 2; ++i) {
      const Status erased = WaitFor([&](auto done) { engine_->Erase(0, "", done); });
      ASSERT_TRUE(erased.ok()) << erased.ToString();
    }
  }
  /// Waits until the tiers have accepted everything offered.
  void SettleTiers() {
    Settle();
    ASSERT_TRUE(WaitFor([&](auto done) { tiers_->Erase("nobody", done); }).ok());
  }
  EngineStats SettledStats() {
    Settle();
    return engine_->stats();
  }
  /// Moves everything in the host tier to the disk tier.
  void MoveToDisk() {
    Settle();
    tiers_->Sweep();
    ASSERT_EQ(tiers_->stats().host_objects, 0);
  }

  std::unique_ptr<Backend> backend_ = std::move(*MakeCpuBackend({.threads = 1}));
  HashNetwork network_{*backend_, GetParam()};
  LetterTokenizer tokenizer_{HashNetwork::kVocab};
  ManualClock clock_;  // outlives the engine
  GatedStore* gate_ = nullptr;
  std::unique_ptr<TieredStore> tiers_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace ringside
