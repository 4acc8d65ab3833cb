// Ten thousand conversations on sixteen slots, with little memory and a small disk: they go idle, return, rewind, are
// edited, forked, cancelled, parked and deleted, from several threads, across restarts. The hash network turns any
// lost, stale, swapped or foreign row into a wrong token; every report is checked for consistency.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <random>
#include <thread>

#include "tests/engine/engine_harness.h"
#include "tests/engine/hash_network.h"
#include "tests/engine/tiers/tiers_harness.h"

namespace ringside {
namespace {

constexpr int64_t kClients = 4, kConversationsPerClient = 2500, kTurnsPerClient = 2000, kRounds = 3;

struct Conversation {
  TimelineId timeline = 0;
  std::string owner;
  std::vector<TokenId> tokens;
  std::vector<int64_t> starts;
  RingWindow window;
  bool spoken = false;
  bool renumbered = false;  // its history may be in a slot under an earlier number, and is reused from there
};

// A network without or with recurrent layers.
class EngineSoak : public ::testing::TestWithParam<bool> {
 protected:
  void Open() {
    // Memory for about two hundred conversations, disk for a thousand; a cache that the disk does not deliver in time
    // is recomputed.
    auto disk = RocksDbStore::Open({.path = folder_.path(), .budget_bytes = 4 << 20});
    ASSERT_TRUE(disk.ok()) << disk.status().ToString();
    tiers_ = std::make_unique<TieredStore>(std::make_unique<RamStore>(512 << 10), std::move(*disk),
                                           TieredStoreOptions{.host_idle_ms = 200, .sweep_ms = 20});
    EngineOptions options{.slots = 16,
                          .memory_len = 24,
                          .pinned_max = 8,
                          .prefill_chunk = 16,
                          .step_tokens = 64,
                          .kv_dtype = DType::kF32};
    EngineStorage storage{.tiers = tiers_.get(), .idle_ms = 30, .fetch_deadline_ms = 30};
    auto started = Engine::Start(network_, tokenizer_, options, storage);
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    engine_ = std::move(*started);
  }

  void Begin(Conversation& c, std::mt19937& random) {
    const TimelineId id = next_++;
    c = {.timeline = id, .owner = "conv_" + std::to_string(id)};
    c.window = {static_cast<int64_t>(random() % 5), 24, random() % 2 == 0 ? Eviction::kTurn : Eviction::kToken};
  }
  static void Cut(Conversation& c, size_t length) {
    c.tokens.resize(length);
    std::erase_if(c.starts, [&](int64_t start) { return start >= static_cast<int64_t>(length); });
  }
  /// Events that may happen to a conversation between two turns.
  void Disturb(Conversation& c, std::mt19937& random) {
    switch (random() % 30) {
      case 0:
        if (!c.tokens.empty()) Cut(c, random() % c.tokens.size());
        break;
      case 1:
      case 2:
        if (c.tokens.size() > 6) Cut(c, c.tokens.size() - random() % 6);
        break;
      case 3:
        if (!c.tokens.empty()) {
          TokenId& edited = c.tokens[random() % c.tokens.size()];
          edited = (edited + 1) % HashNetwork::kVocab;
        }
        break;
      case 4:
        engine_->Close(c.timeline);
        break;
      case 5:
      case 6: {  // parked, it returns under another number
        engine_->Park(c.timeline);
        c.timeline = next_++;
        c.renumbered = true;
        break;
      }
      case 7: {
        const TimelineId fork = next_++;
        const std::string owner = "conv_" + std::to_string(fork);
        engine_->Fork(c.timeline, fork, c.owner, owner);
        if (random() % 4 == 0) engine_->Erase(c.timeline, c.owner, nullptr);
        c.timeline = fork;
        c.owner = owner;
        c.renumbered = true;
        break;
      }
      case 8:
        engine_->Erase(c.timeline, c.owner, nullptr);
        if (random() % 2 == 0) Begin(c, random);
        break;
      case 9:
        engine_->Prefetch(c.owner);
        break;
      default:
        break;
    }
  }
  SubmittedTurn Speak(Conversation& c, std::mt19937& random) {
    c.starts.push_back(static_cast<int64_t>(c.tokens.size()));
    for (size_t n = 1 + random() % 20; n > 0; --n) {
      c.tokens.push_back(static_cast<TokenId>(random() % HashNetwork::kVocab));
    }
    const bool cancelled = random() % 10 == 0;
    SubmittedTurn turn = GreedyTurn(next_turn_++, c.timeline, c.tokens, c.starts, c.window,
                                    cancelled ? 200 : static_cast<int64_t>(random() % 8));
    turn.request.owner = c.owner;
    turn.request.continues = c.spoken;
    const Status accepted = engine_->Submit(turn.request);
    EXPECT_TRUE(accepted.ok()) << accepted.ToString();
    if (cancelled) {
      if (random() % 2 == 0) turn.sink->WaitForTokens(random() % 8);
      engine_->Cancel(turn.request.turn);
    }
    return turn;
  }
  void Check(Conversation& c, const SubmittedTurn& turn) {
    const TurnEnd end = turn.sink->Wait();
    ASSERT_NE(end.reason, FinishReason::kError) << end.error.ToString();
    const bool admitted = end.reason != FinishReason::kCancelled || end.report.position > 0;
    if (admitted) {
      const CacheReport& report = end.report;
      ++sources_[static_cast<size_t>(report.source)];
      const auto length = static_cast<int64_t>(turn.request.tokens.size());
      const bool nothing = report.source == CacheSource::kNew || report.source == CacheSource::kRecomputed;
      // A rebuild keeps the pinned tokens if they still match.
      const int64_t kept = report.source == CacheSource::kNew ? 0 : nothing ? c.window.pinned : length;
      EXPECT_LE(report.tokens_reused, c.renumbered ? length : kept);
      EXPECT_TRUE(nothing || report.tokens_reused > 0);
      const bool restored = report.source == CacheSource::kHost || report.source == CacheSource::kDisk;
      EXPECT_TRUE(restored || report.restore_ms == 0);
      // With a usable cache only the rest is computed; without one at most everything.
      EXPECT_LE(report.tokens_computed, length);
      if (!nothing && report.tokens_reused > c.window.pinned) {
        EXPECT_EQ(report.tokens_reused + report.tokens_computed, length);
      }
      EXPECT_FALSE(c.spoken && report.source == CacheSource::kNew);
    }
    size_t checked = 0;
    for (const TokenId id : end.output) {
      if (++checked <= 10) {
        ASSERT_EQ(id, HashNetwork::Expected(c.tokens, c.starts, c.window, GetParam()))
            << c.owner << ", " << c.tokens.size();
      }
      c.tokens.push_back(id);
    }
    c.spoken |= admitted;
    if (c.tokens.size() > 400) Cut(c, 5);
  }
  void Client(std::vector<Conversation>& conversations, uint32_t seed) {
    std::mt19937 random(seed);
    for (int64_t turn = 0; turn < kTurnsPerClient / kRounds; ++turn) {
      // A few concurrent turns on different conversations; some conversations are used much more often.
      std::array<size_t, 3> chosen{};
      std::vector<SubmittedTurn> turns;
      for (size_t i = 0; i < chosen.size(); ++i) {
        do {
          const double u = static_cast<double>(random()) / 4294967296.0;
          chosen[i] = random() % 3 == 0 ? random() % conversations.size()
                                        : static_cast<size_t>(u * u * u * static_cast<double>(conversations.size()));
        } while (std::find(chosen.begin(), chosen.begin() + static_cast<int64_t>(i), chosen[i]) !=
                 chosen.begin() + static_cast<int64_t>(i));
        Conversation& c = conversations[chosen[i]];
        Disturb(c, random);
        turns.push_back(Speak(c, random));
      }
      for (size_t i = 0; i < chosen.size(); ++i) Check(conversations[chosen[i]], turns[i]);
      if (HasFatalFailure()) return;
    }
  }

  TierFolder folder_{/*in_memory=*/true};  // the effect of a disk on the rows is tested elsewhere
  std::unique_ptr<Backend> backend_ = std::move(*MakeCpuBackend({.threads = 1}));
  HashNetwork network_{*backend_, /*runs_ahead=*/false, /*branches=*/true, GetParam()};
  LetterTokenizer tokenizer_{HashNetwork::kVocab};
  std::unique_ptr<TieredStore> tiers_;
  std::unique_ptr<Engine> engine_;
  std::atomic<TimelineId> next_{1};
  std::atomic<TurnId> next_turn_{1};
  std::array<std::atomic<int64_t>, 5> sources_{};
};

INSTANTIATE_TEST_SUITE_P(Both, EngineSoak, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Recurrent" : "Attention"; });

TEST_P(EngineSoak, TenThousandConversationsReadNoWrongRow) {
  std::vector<std::vector<Conversation>> conversations(kClients);
  std::mt19937 random(99);
  for (auto& mine : conversations) {
    mine.resize(kConversationsPerClient);
    for (Conversation& c : mine) Begin(c, random);
  }
  uint64_t captures = 0, taken = 0;
  for (uint32_t round = 0; round < kRounds; ++round) {
    Open();
    if (HasFatalFailure()) return;
    std::vector<std::thread> clients;
    for (uint32_t i = 0; i < kClients; ++i) {
      clients.emplace_back([&, i] { Client(conversations[i], 100 * round + i); });
    }
    for (auto& client : clients) client.join();
    if (HasFatalFailure()) return;
    // One restart saves everything, the other loses unsaved caches like a crash.
    if (round == 0) {
      ASSERT_TRUE(WaitFor([&](auto done) { engine_->SaveAll(done); }).ok());
    }
    captures += engine_->stats().captures;
    taken += engine_->stats().slots_taken;
    engine_.reset();
    tiers_.reset();
  }
  const auto count = [&](CacheSource source) { return sources_[static_cast<size_t>(source)].load(); };
  EXPECT_GT(count(CacheSource::kSlot), 100);
  EXPECT_GT(count(CacheSource::kHost), 1000);
  EXPECT_GT(count(CacheSource::kDisk), 100);
  EXPECT_GT(count(CacheSource::kRecomputed), 300);
  EXPECT_GT(count(CacheSource::kNew), 3000);
  EXPECT_GT(captures, 5000u);
  EXPECT_GT(taken, 1000u);
  for (const CacheSource source :
       {CacheSource::kNew, CacheSource::kSlot, CacheSource::kHost, CacheSource::kDisk, CacheSource::kRecomputed}) {
    RecordProperty(CacheSourceName(source), std::to_string(count(source)));
  }
}

}  // namespace
}  // namespace ringside
