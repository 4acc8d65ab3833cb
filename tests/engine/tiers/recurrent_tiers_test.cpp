// Caches with recurrent state in the tiers: each conversation has its own secret, and the recurrent hash network turns
// a wrong boundary, a stale tail or a foreign row into a wrong next token.
#include <algorithm>
#include <random>

#include "tests/engine/engine_harness.h"
#include "tests/engine/hash_network.h"
#include "tests/engine/tiers/tiers_harness.h"

namespace ringside {
namespace {

// Without or with run-ahead.
class RecurrentTiers : public ::testing::TestWithParam<bool> {
 protected:
  static constexpr RingWindow kWindow{4, 200, Eviction::kTurn};
  static constexpr int64_t kMinute = 60'000;

  void Start(EngineOptions options, TieredStore& tiers) {
    options.memory_len = 2000;
    options.pinned_max = 8;
    options.kv_dtype = DType::kF32;
    auto started = Engine::Start(network_, tokenizer_, options, {.tiers = &tiers, .fetch_deadline_ms = kMinute});
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    engine_ = std::move(*started);
  }
  /// Tiers in memory; every part of the second one is read through a gate.
  void StartInMemory(EngineOptions options) {
    auto disk = std::make_unique<GatedStore>(4 << 20);
    gate_ = disk.get();
    tiers_ = std::make_unique<TieredStore>(std::make_unique<RamStore>(4 << 20), std::move(disk),
                                           TieredStoreOptions{.host_idle_ms = 0, .sweep_ms = 0});
    Start(options, *tiers_);
  }
  /// Runs a turn, checks every token against the plain computation, and appends them.
  TurnEnd Run(TimelineId timeline, std::vector<TokenId>& tokens, int64_t max_tokens,
              const std::vector<int64_t>& starts = {}, RingWindow window = kWindow) {
    SubmittedTurn turn = GreedyTurn(next_turn_++, timeline, tokens, starts, window, max_tokens);
    turn.request.owner = turn.request.tenant = "conv_" + std::to_string(timeline);
    turn.request.continues = true;
    const Status accepted = engine_->Submit(turn.request);
    EXPECT_TRUE(accepted.ok()) << accepted.ToString();
    TurnEnd end = accepted.ok() ? turn.sink->Wait() : TurnEnd{};
    EXPECT_NE(end.reason, FinishReason::kError) << end.error.ToString();
    for (const TokenId id : end.output) {
      EXPECT_EQ(id, HashNetwork::Expected(tokens, starts, window, /*recurrent=*/true)) << "after " << tokens.size();
      tokens.push_back(id);
    }
    return end;
  }
  /// Saves the conversation's cache and takes it out of its slot.
  void Park(TimelineId timeline) {
    engine_->Park(timeline);
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(WaitFor([&](auto done) { engine_->Erase(0, "", done); }).ok());
  }
  void MoveToDisk() {
    ASSERT_TRUE(WaitFor([&](auto done) { tiers_->Erase("nobody", done); }).ok());
    tiers_->Sweep();
    ASSERT_EQ(tiers_->stats().host_objects, 0);
  }

  std::unique_ptr<Backend> backend_ = std::move(*MakeCpuBackend({.threads = 1}));
  HashNetwork network_{*backend_, GetParam(), /*branches=*/true, /*recurrent=*/true};
  LetterTokenizer tokenizer_{HashNetwork::kVocab};
  GatedStore* gate_ = nullptr;
  std::unique_ptr<TieredStore> tiers_;
  std::unique_ptr<Engine> engine_;
  TurnId next_turn_ = 1;
};

INSTANTIATE_TEST_SUITE_P(Both, RecurrentTiers, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "RunAhead" : "InStep"; });

TEST_P(RecurrentTiers, ContinuesFromHostAndDiskAtEveryLength) {
  StartInMemory({.slots = 1, .prefill_chunk = 48});
  std::vector<TokenId> other = Tokens(40, 99);
  for (size_t length = 1; length < 300; length += 1 + length % 23) {
    for (const bool disk : {false, true}) {
      std::vector<TokenId> tokens = Tokens(length, 1);
      const TimelineId timeline = static_cast<TimelineId>(2 * length + (disk ? 1 : 0));
      Run(timeline, tokens, 3);
      const auto stored = std::ssize(tokens) - 1;  // the last token has no row yet, except with run-ahead
      Park(timeline);
      // Another conversation's state is in the slab meanwhile.
      Run(1, other, 30);
      Park(1);
      other.resize(other.size() % 200 + 1);
      if (disk) MoveToDisk();
      tokens.push_back(5);
      const TurnEnd end = Run(timeline, tokens, 4);
      EXPECT_EQ(end.report.source, disk ? CacheSource::kDisk : CacheSource::kHost) << length;
      EXPECT_GE(end.report.tokens_reused, stored) << length;
      if (HasFailure()) return;
    }
  }
}

TEST_P(RecurrentTiers, TwentyTurnsThroughTheTiersComputeNewTokensOnly) {
  StartInMemory({.slots = 2, .prefill_chunk = 48});
  std::vector<TokenId> tokens = Tokens(50, 9);
  for (uint32_t turn = 0; turn < 20; ++turn) {
    const auto known = std::ssize(tokens);
    if (turn > 0) tokens.insert(tokens.end(), 1 + turn % 30, static_cast<TokenId>(turn));
    const auto length = std::ssize(tokens);
    const TurnEnd end = Run(1, tokens, 10);
    if (turn > 0) {
      EXPECT_GE(end.report.tokens_reused, known - 1) << turn;
      EXPECT_EQ(end.report.tokens_reused + end.report.tokens_computed, length);
    }
    Park(1);
    if (turn % 2 == 1) MoveToDisk();
  }
}

TEST_P(RecurrentTiers, EveryDamagedChunkIsRefusedAndRecomputed) {
  StartInMemory({.slots = 1, .prefill_chunk = 48});
  std::vector<TokenId> tokens = Tokens(210, 2);
  int64_t parts = 1;
  for (int64_t part = 0; part < parts; ++part) {
    std::vector<TokenId> mine = tokens;
    mine[0] = static_cast<TokenId>(part);
    const TimelineId timeline = part + 1;
    Run(timeline, mine, 2);
    Park(timeline);
    MoveToDisk();
    const int64_t before = gate_->parts_read();
    gate_->DamagePart(part);
    const TurnEnd end = Run(timeline, mine, 2);
    EXPECT_EQ(end.report.source, CacheSource::kRecomputed) << part;
    EXPECT_EQ(end.report.tokens_reused, 0);
    EXPECT_GT(gate_->parts_read(), before);
    if (part > 0) continue;
    // The number of chunks: read an undamaged one.
    Park(timeline);
    MoveToDisk();
    const int64_t all = gate_->parts_read();
    EXPECT_EQ(Run(timeline, mine, 2).report.source, CacheSource::kDisk);
    parts = gate_->parts_read() - all;
    EXPECT_GE(parts, 6) << "rows, three boundaries, the tail";
  }
  EXPECT_EQ(tiers_->stats().damaged, static_cast<uint64_t>(parts));
}

TEST_P(RecurrentTiers, ARestartContinuesFromDisk) {
  TierFolder folder(/*in_memory=*/true);
  std::vector<std::vector<TokenId>> conversations;
  for (uint32_t i = 0; i < 12; ++i) conversations.push_back(Tokens(20 + 31 * i, i));
  for (int round = 0; round < 3; ++round) {
    // A cache depends on no property of the process: other slots, chunks and numbers of boundaries.
    Start({.slots = 3 + round, .prefill_chunk = 48 + 16 * round, .state_slots = 4 - round},
          folder.Open(1 << 20, 4 << 20));
    for (size_t i = 0; i < conversations.size(); ++i) {
      conversations[i].push_back(static_cast<TokenId>(round));
      const TurnEnd end = Run(static_cast<TimelineId>(1 + i), conversations[i], 5);
      EXPECT_EQ(end.report.source, round > 0 ? CacheSource::kDisk : CacheSource::kRecomputed) << i;
      if (HasFailure()) return;
    }
    ASSERT_TRUE(WaitFor([&](auto done) { engine_->SaveAll(done); }).ok());
    engine_.reset();
  }
}

TEST_P(RecurrentTiers, AForkThroughTheTiersIsExact) {
  StartInMemory({.slots = 2, .prefill_chunk = 48});
  std::vector<TokenId> tokens = Tokens(150, 3);
  Run(1, tokens, 5);
  engine_->Fork(1, 2, "conv_1", "conv_2");
  Park(1);
  std::vector<TokenId> fork = tokens;
  fork.push_back(1), tokens.push_back(2);
  EXPECT_EQ(Run(2, fork, 5).report.source, CacheSource::kHost);
  EXPECT_EQ(Run(1, tokens, 5).report.source, CacheSource::kHost);
}

TEST_P(RecurrentTiers, AnEditFarBackContinuesFromAnOlderBoundaryOfTheTiers) {
  const RingWindow window{4, 2000, Eviction::kTurn};
  for (const bool disk : {false, true}) {
    StartInMemory({.slots = 2, .prefill_chunk = 256, .step_tokens = 256, .state_slots = 3});
    std::vector<TokenId> tokens;
    for (uint32_t turn = 0; turn < 20; ++turn) {
      const std::vector<TokenId> input = Tokens(60, turn);
      tokens.insert(tokens.end(), input.begin(), input.end());
      Run(1, tokens, 10, {}, window);
      Park(1);
    }
    tokens.push_back(1);
    EXPECT_EQ(Run(1, tokens, 3, {}, window).report.source, CacheSource::kHost);
    if (disk) MoveToDisk();
    // The cache is in its slot, but its nearest boundary is far from the edit.
    std::vector<TokenId> edited(tokens.begin(), tokens.begin() + 905);
    edited.push_back((tokens[905] + 1) % HashNetwork::kVocab);
    const TurnEnd end = Run(1, edited, 3, {}, window);
    EXPECT_EQ(end.report.source, disk ? CacheSource::kDisk : CacheSource::kHost);
    EXPECT_GE(end.report.tokens_reused, 832);
    EXPECT_EQ(end.report.tokens_replayed, 905 - end.report.tokens_reused);
    EXPECT_EQ(end.report.tokens_reused + end.report.tokens_computed, 906);
  }
}

TEST_P(RecurrentTiers, RandomOperationsEqualThePlainComputation) {
  struct Conversation {
    TimelineId timeline;
    std::vector<TokenId> tokens;
    std::vector<int64_t> starts;
  };
  for (uint32_t seed = 0; seed < 4; ++seed) {
    std::mt19937 random(seed);
    TierFolder folder(/*in_memory=*/true);
    const EngineOptions options{.slots = 2 + static_cast<int64_t>(random() % 3),
                                .prefill_chunk = 16 + static_cast<int64_t>(random() % 100),
                                .step_tokens = 128,
                                .state_slots = 2 + static_cast<int64_t>(random() % 4)};
    // Memory for a few conversations: some go to disk, some are lost.
    TieredStore* tiers = &folder.Open(80 << 10, 300 << 10);
    Start(options, *tiers);
    if (HasFatalFailure()) return;
    TimelineId last = 0;
    std::vector<Conversation> conversations;
    for (int i = 0; i < 8; ++i) {
      const TimelineId timeline = ++last;
      conversations.push_back({timeline, Tokens(60, static_cast<uint32_t>(timeline)), {0}});  // its secret
    }
    for (int step = 0; step < 120; ++step) {
      Conversation& c = conversations[random() % conversations.size()];
      const auto cut = [&](size_t length) {
        c.tokens.resize(length);
        std::erase_if(c.starts, [&](int64_t start) { return start >= std::ssize(c.tokens); });
      };
      switch (random() % 12) {
        case 0:
          cut(1 + random() % c.tokens.size());
          break;
        case 1:
          c.tokens[random() % c.tokens.size()] = static_cast<TokenId>(random() % HashNetwork::kVocab);
          break;
        case 2:
        case 3:
          Park(c.timeline);
          break;
        case 4: {
          Conversation fork = c;
          fork.timeline = ++last;
          engine_->Fork(c.timeline, fork.timeline, "conv_" + std::to_string(c.timeline),
                        "conv_" + std::to_string(fork.timeline));
          conversations[random() % conversations.size()] = std::move(fork);
          continue;
        }
        case 5:
          tiers->Sweep();
          break;
        case 6:
          if (random() % 3 != 0) break;
          if (random() % 2 == 0) {
            ASSERT_TRUE(WaitFor([&](auto done) { engine_->SaveAll(done); }).ok());
          }
          engine_.reset();  // a restart, or a crash
          Start(options, *(tiers = &folder.Open(80 << 10, 300 << 10)));
          break;
        case 7:
          cut(c.tokens.size() - random() % std::min<size_t>(c.tokens.size(), 8));  // the last answer again
          break;
        default:
          break;
      }
      c.starts.push_back(std::ssize(c.tokens));
      for (size_t n = 1 + random() % 40; n > 0; --n) {
        c.tokens.push_back(static_cast<TokenId>(random() % HashNetwork::kVocab));
      }
      Run(c.timeline, c.tokens, static_cast<int64_t>(random() % 40), c.starts);
      if (HasFailure()) FAIL() << "seed " << seed << ", step " << step;
      if (c.tokens.size() > 700) cut(100);
    }
    engine_.reset();
  }
}

}  // namespace
}  // namespace ringside
