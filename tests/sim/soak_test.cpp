// Hours of random load with faults, on the virtual clock: turns are cancelled, conversations rewound, edited, parked,
// forked and erased while they arrive in bursts for a few slots; the host tier is nearly always full, loses chunks and
// refuses saves; copies are slow; the device fails permanently now and then. The hash network turns any wrong row into
// a wrong token. RINGSIDE_SOAK_HOURS sets the number of simulated hours (50: seconds); RINGSIDE_SOAK_SEED the seed.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <random>

#include "base/log.h"
#include "cache/store/ram_store.h"
#include "engine/loop/engine_loop.h"
#include "engine/slot_plan.h"
#include "tests/engine/hash_network.h"
#include "tests/engine/letter_tokenizer.h"
#include "tools/sim/sim_device.h"

namespace ringside {
namespace {

constexpr int64_t kMs = 1'000'000, kHour = int64_t{3600} * 1000 * kMs;
constexpr int64_t kLongestWait = 5'000 * kMs;  // until a turn starts, under any load
constexpr int64_t kSlots = 4;
constexpr EngineOptions kOptions{.memory_len = 24,
                                 .pinned_max = 8,
                                 .prefill_chunk = 16,
                                 .step_tokens = 64,
                                 .target_itl_ms = 2,
                                 .kv_dtype = DType::kF32};
constexpr size_t kConversations = 60;

/// A store that refuses some objects and has lost some of those requested.
class FaultyStore final : public Store {
 public:
  FaultyStore(int64_t budget_bytes, const Status& refusal, const Clock& clock, std::mt19937& random)
      : inner_(budget_bytes, clock), refusal_(refusal), random_(random) {}

  Status Put(const std::string& owner, StoreObject object) override {
    if (random_() % 40 == 0) return refusal_;
    return inner_.Put(owner, std::move(object));
  }
  Result<std::string> GetManifest(const std::string& owner) override { return inner_.GetManifest(owner); }
  Result<Blob> GetPart(const std::string& owner, const ChunkHash& key, size_t bytes) override {
    if (random_() % 200 == 0) return NotFound("an injected fault");
    return inner_.GetPart(owner, key, bytes);
  }
  Status Erase(const std::string& owner) override { return inner_.Erase(owner); }
  StoreIndex& index() override { return inner_.index(); }
  int64_t budget_bytes() const override { return inner_.budget_bytes(); }

 private:
  RamStore inner_;
  const Status refusal_;
  std::mt19937& random_;
};

/// An engine with its device and its tiers.
struct Server {
  Server(const CostModel& cost, ManualClock& clock, std::mt19937& random, bool recurrent)
      : backend(cost, /*scale=*/1e6, clock),
        network(backend, /*runs_ahead=*/true, /*branches=*/true, recurrent),
        timed(cost, backend, network, clock),
        // Memory for a few conversations, and more on the simulated disk.
        tiers(std::make_unique<FaultyStore>(24 << 10, Overloaded("an injected fault"), clock, random),
              std::make_unique<FaultyStore>(64 << 10, IoError("an injected fault"), clock, random),
              {.host_idle_ms = 20'000, .sweep_ms = 0, .least_waiting_bytes = 4 << 10, .own_threads = false}, clock),
        loop(timed, tokenizer, kOptions,
             std::move(*KvPool::Make(backend, CacheShape(network.shape(), kOptions), kSlots)),
             {.tiers = &tiers, .idle_ms = 5'000, .fetch_deadline_ms = 200}, clock, EngineLoop::Driver::kCaller) {}

  SimBackend backend;
  HashNetwork network;
  SimNetwork timed;
  LetterTokenizer tokenizer{HashNetwork::kVocab};
  TieredStore tiers;
  EngineLoop loop;
};

struct Conversation {
  TimelineId timeline = 0;
  std::string owner;
  std::vector<TokenId> tokens;
  std::vector<int64_t> starts;
  RingWindow window;
  bool spoken = false;
  TurnId answering = 0;
  int64_t sent_ns = 0, begun_ns = 0;
};

class Soak {
 public:
  Soak(uint32_t seed, bool recurrent)
      : random_(seed), recurrent_(recurrent), cost_(*CostModel::Read(CostFile("llama-3-8b.h200"))) {
    for (Conversation& c : conversations_) Begin(c);
  }

  void Run(double hours) {
    server_ = std::make_unique<Server>(cost_, clock_, random_, recurrent_);
    const auto end = static_cast<int64_t>(hours * static_cast<double>(kHour));
    for (int64_t next = 0; clock_.MonotonicNs() < end && !testing::Test::HasFailure();) {
      if (clock_.MonotonicNs() >= next) {
        SomethingHappens();
        // Bursts, and pauses in which caches go idle.
        const double mean_ms = random_() % 20 == 0 ? 120'000 : 10;
        next = clock_.MonotonicNs() + static_cast<int64_t>(-mean_ms * 1e6 * std::log1p(-Uniform()));
      }
      Round(next);
    }
    while (answering_ > 0 && !testing::Test::HasFailure()) Round(std::nullopt);
    NothingIsLeft();
  }

  int64_t turns = 0, cancelled = 0, failures = 0, longest_wait_ns = 0;
  std::map<CacheSource, int64_t> sources;

 private:
  class Sink final : public TokenSink {
   public:
    Sink(Soak& soak, Conversation& c) : soak_(soak), c_(c) {}
    void OnStart(const CacheReport&) override { c_.begun_ns = soak_.clock_.MonotonicNs(); }
    void OnTokens(const TokenDelta&) override {}
    void OnEnd(const TurnEnd& end) override { soak_.Ended(c_, end); }

   private:
    Soak& soak_;
    Conversation& c_;
  };

  double Uniform() { return static_cast<double>(random_()) / 4294967296.0; }

  void Round(std::optional<int64_t> next) {
    server_->loop.RunRound();
    server_->tiers.RunQueued();
    if (const auto due = server_->loop.NextDueNs()) next = std::min(next.value_or(*due), *due);
    ASSERT_TRUE(next || answering_ == 0) << "the engine has nothing to do, and turns that it has not ended";
    if (next) AdvanceTo(clock_, *next);
    for (const Conversation& c : conversations_) {
      if (c.answering == 0 || c.begun_ns != 0) continue;
      ASSERT_LE(clock_.MonotonicNs() - c.sent_ns, kLongestWait) << c.owner << " starves";
    }
  }

  void Begin(Conversation& c) {
    const TimelineId id = ++last_id_;
    c = {.timeline = id, .owner = "conversation_" + std::to_string(id)};
    c.window = {static_cast<int64_t>(random_() % 5), 24, random_() % 2 == 0 ? Eviction::kTurn : Eviction::kToken};
  }
  static void Cut(Conversation& c, size_t length) {
    c.tokens.resize(length);
    std::erase_if(c.starts, [&](int64_t start) { return start >= static_cast<int64_t>(length); });
  }

  void SomethingHappens() {
    if (random_() % 5'000 == 0) return TheDeviceFails();
    if (random_() % 50 == 0) server_->tiers.Sweep();
    Conversation& c = conversations_[static_cast<size_t>(Uniform() * Uniform() * kConversations)];
    if (c.answering == 0) {
      Disturb(c);
      return Speak(c);
    }
    if (random_() % 3 == 0) server_->loop.Cancel(c.answering);
    if (random_() % 20 == 0) server_->loop.Close(c.timeline);  // ends its running turn
  }

  void Disturb(Conversation& c) {
    switch (random_() % 30) {
      case 0:
        if (!c.tokens.empty()) Cut(c, random_() % c.tokens.size());
        break;
      case 1:
      case 2:
        if (c.tokens.size() > 6) Cut(c, c.tokens.size() - random_() % 6);
        break;
      case 3:
        if (!c.tokens.empty()) {
          TokenId& edited = c.tokens[random_() % c.tokens.size()];
          edited = (edited + 1) % HashNetwork::kVocab;
        }
        break;
      case 4:
        server_->loop.Close(c.timeline);
        break;
      case 5:
      case 6:
        server_->loop.Park(c.timeline);
        c.timeline = ++last_id_;
        break;
      case 7: {
        const TimelineId fork = ++last_id_;
        const std::string owner = "conversation_" + std::to_string(fork);
        server_->loop.Fork(c.timeline, fork, c.owner, owner);
        server_->loop.Erase(c.timeline, c.owner, nullptr);
        c.timeline = fork;
        c.owner = owner;
        break;
      }
      case 8:
        server_->loop.Erase(c.timeline, c.owner, nullptr);
        if (random_() % 2 == 0) Begin(c);
        break;
      case 9:
        server_->loop.Prefetch(c.owner);
        break;
      default:
        break;
    }
  }

  void Speak(Conversation& c) {
    c.starts.push_back(static_cast<int64_t>(c.tokens.size()));
    for (size_t n = 1 + random_() % 20; n > 0; --n) {
      c.tokens.push_back(static_cast<TokenId>(random_() % HashNetwork::kVocab));
    }
    TurnRequest request;
    request.turn = c.answering = ++last_turn_;
    request.timeline = c.timeline;
    request.owner = c.owner;
    request.continues = c.spoken;
    request.tokens = c.tokens;
    request.message_starts = c.starts;
    request.window = c.window;
    request.sampling.temperature = 0;
    request.max_tokens = random_() % 10 == 0 ? 100 : static_cast<int64_t>(random_() % 8);
    request.sink = std::make_shared<Sink>(*this, c);
    c.sent_ns = clock_.MonotonicNs();
    c.begun_ns = 0;
    ++answering_;
    const Status accepted = server_->loop.Submit(std::move(request));
    ASSERT_TRUE(accepted.ok()) << accepted.ToString();
  }

  void Ended(Conversation& c, const TurnEnd& end) {
    ASSERT_NE(c.answering, 0u) << c.owner << " hears of an end twice";
    c.answering = 0;
    --answering_;
    ++turns;
    cancelled += end.reason == FinishReason::kCancelled;
    if (end.reason == FinishReason::kError) {
      ASSERT_TRUE(device_fails_) << end.error.ToString();
    } else if (c.begun_ns != 0) {
      ++sources[end.report.source];
      longest_wait_ns = std::max(longest_wait_ns, c.begun_ns - c.sent_ns);
      EXPECT_FALSE(c.spoken && end.report.source == CacheSource::kNew);
      c.spoken = true;
    }
    for (const TokenId id : end.output) {
      ASSERT_EQ(id, HashNetwork::Expected(c.tokens, c.starts, c.window, recurrent_))
          << c.owner << ", " << c.tokens.size();
      c.tokens.push_back(id);
    }
    if (c.tokens.size() > 400) Cut(c, 5);
  }

  void TheDeviceFails() {
    ++failures;
    device_fails_ = true;
    server_->backend.FailAfter(0);
    while (answering_ > 0 && !testing::Test::HasFailure()) Round(std::nullopt);
    device_fails_ = false;
    server_ = std::make_unique<Server>(cost_, clock_, random_, recurrent_);
  }

  void NothingIsLeft() {
    for (const Conversation& c : conversations_) server_->loop.Close(c.timeline);
    // Conversations lost by a fork or a device failure were erased, or lost with their engine.
    for (int i = 0; i < 100; ++i) Round(clock_.MonotonicNs() + 1000 * kMs);
    EXPECT_EQ(server_->loop.stats().slots_used, 0) << "a slot has leaked";
    EXPECT_EQ(server_->loop.stats().turns_running + server_->loop.stats().turns_waiting, 0);
    EXPECT_EQ(server_->tiers.stats().waiting_bytes, 0);
  }

  std::mt19937 random_;
  const bool recurrent_;
  ManualClock clock_;
  const CostModel cost_;
  std::array<Conversation, kConversations> conversations_;
  TimelineId last_id_ = 0;
  TurnId last_turn_ = 0;
  int64_t answering_ = 0;
  bool device_fails_ = false;
  std::unique_ptr<Server> server_;
};

double FromEnvironment(const char* name, double otherwise) {
  const char* given = std::getenv(name);
  return given == nullptr ? otherwise : std::atof(given);
}

// A network without or with recurrent layers.
class SimulatedSoak : public testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(Both, SimulatedSoak, testing::Bool(),
                         [](const auto& info) { return info.param ? "Recurrent" : "Attention"; });

TEST_P(SimulatedSoak, NoStarvationNoSlotLeakNoWrongRow) {
  ConfigureLog(LogLevel::kError, LogFormat::kAuto);  // injected faults are expected
  const double hours = FromEnvironment("RINGSIDE_SOAK_HOURS", 50);
  Soak soak(static_cast<uint32_t>(FromEnvironment("RINGSIDE_SOAK_SEED", 1)), GetParam());
  soak.Run(hours);
  if (HasFailure()) return;
  const auto count = [&](CacheSource source) { return static_cast<double>(soak.sources[source]) / hours; };
  EXPECT_GT(soak.turns, static_cast<int64_t>(200 * hours));
  EXPECT_GT(soak.cancelled, static_cast<int64_t>(5 * hours));
  for (const CacheSource source :
       {CacheSource::kNew, CacheSource::kSlot, CacheSource::kHost, CacheSource::kDisk, CacheSource::kRecomputed}) {
    EXPECT_GT(count(source), 1) << CacheSourceName(source) << " an hour";
    RecordProperty(CacheSourceName(source), std::to_string(soak.sources[source]));
  }
  RecordProperty("turns", std::to_string(soak.turns));
  RecordProperty("device_failures", std::to_string(soak.failures));
  RecordProperty("longest_wait_ms", std::to_string(soak.longest_wait_ns / kMs));
}

}  // namespace
}  // namespace ringside
