// The fixture of engine tests on every available device: a real network, slabs that hold NaN where no token was
// written, and turns whose tokens are compared. On the CPU, and on a GPU in deterministic mode, tokens must be equal;
// otherwise two answers may diverge on a GPU at a near-tie, where the sampled token's lead is smaller than rounding,
// and everything after it may differ.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/engine/engine_harness.h"
#include "tests/engine/forwarding_network.h"
#include "tests/engine/model/model_run.h"
#include "tests/engine/tiers/tiers_harness.h"
#include "tests/kernels/devices.h"

namespace ringside {

/// A network whose slabs hold NaN, like another conversation's stale memory, wherever a step writes first.
class WatchedNetwork final : public ForwardingNetwork {
 public:
  using Watch = std::function<void(std::span<const StepPart>)>;
  /// `before` and `after`, if set, are called before and after every step, on the engine's thread.
  WatchedNetwork(Network& network, Watch before, Watch after)
      : ForwardingNetwork(network), before_(std::move(before)), after_(std::move(after)) {}

  /// Fills all rows of a conversation.
  void FillWithNaN(const KvCache& cache) { FillWithNaN(cache, 0, Held(cache, cache.ring().next())); }

 private:
  static size_t Held(const KvCache& cache, int64_t tokens) {
    return static_cast<size_t>(cache.shape().HeldBytes(tokens, cache.ring().window().pinned));
  }
  void Before(std::span<const StepPart> parts) override {
    for (const StepPart& part : parts) {
      const int64_t next = part.cache->ring().next();
      FillWithNaN(*part.cache, Held(*part.cache, next), Held(*part.cache, next + std::ssize(part.tokens)));
    }
    if (before_) before_(parts);
  }
  void FillWithNaN(const KvCache& cache, size_t begin, size_t end) {
    if (begin >= end) return;
    nan_.assign(end - begin, std::byte{0xff});
    const SlabRun run{static_cast<int64_t>(begin), std::ssize(nan_), nan_.data()};
    memory().WaitForCopy(memory().LoadSlab(cache.shape(), cache.slab(), {&run, 1}));
  }
  void After(std::span<const StepPart> parts) override {
    if (after_) after_(parts);
  }

  const Watch before_, after_;
  std::vector<std::byte> nan_;
};

class DeviceEngineTest : public testing::DeviceTest, public ::testing::WithParamInterface<std::string> {
 protected:
  static constexpr RingWindow kWindow{4, 256, Eviction::kTurn}, kSmallWindow{4, 48, Eviction::kTurn};

  void SetUp() override {
    std::vector<Backend*> backends;
    const RankLayout layout = testing::LayoutOf(GetParam());
    if (layout.ranks() > 1) {
      // Ranks wait for one another inside their kernels: whole networks would hang if they shared a GPU.
      const bool cpu = GetParam().starts_with("cpu");
      if (cpu || layout.ranks() <= CountCudaDevices())
        ranks_ = testing::MakeTestRanks(cpu ? "cpu" : "cuda_bf16", layout);
      if (ranks_.empty()) GTEST_SKIP() << GetParam() << " takes " << layout.ranks() << " GPUs";
      for (const auto& rank : ranks_) backends.push_back(rank.get());
    } else {
      Use(GetParam());
      if (IsSkipped()) return;
      backends.push_back(backend_.get());
    }
    type_ = backends.front()->activation_dtype();
    const char* path = std::getenv("RINGSIDE_TEST_DEVICE_MODEL");  // instead of the tiny model: any, including random
                                                                   // ones
    auto model = Model::Load(path != nullptr ? path : GoldenFolder("llama"), backends, layout.stages);
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    model_ = std::move(*model);
    tokenizer_ = std::make_unique<LetterTokenizer>(model_->spec().vocab);
  }
  void TearDown() override {
    engine_.reset();
    folder_.reset();
    model_.reset();
  }

  /// `before` and `after`: see WatchedNetwork.
  void Start(EngineOptions options, bool tiers = false, WatchedNetwork::Watch before = nullptr,
             WatchedNetwork::Watch after = nullptr) {
    engine_.reset();
    options.memory_len = memory_len_;
    options.pinned_max = 8;
    options.prefill_chunk = chunk_;
    options.kv_dtype = cache_dtype();
    EngineStorage storage;
    if (tiers) {
      folder_ = std::make_unique<TierFolder>(/*in_memory=*/true);
      tiers_ = &folder_->Open(int64_t{1} << 30, int64_t{1} << 30);
      storage = {.tiers = tiers_, .fetch_deadline_ms = 60'000, .pinned_bytes = int64_t{64} << 20};
    }
    ASSERT_TRUE(model_->Reserve(options.slots + options.step_tokens).ok());
    network_ = std::make_unique<WatchedNetwork>(*model_, std::move(before), std::move(after));
    auto started = Engine::Start(*network_, *tokenizer_, options, storage, *clock_);
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    engine_ = std::move(*started);
  }
  DType cache_dtype() const { return type_ == DType::kF32 ? DType::kF16 : type_; }
  SubmittedTurn Turn(TimelineId timeline, std::vector<TokenId> tokens, int64_t max_tokens,
                     RingWindow window = kWindow) {
    std::vector<int64_t> starts;  // occasional message starts, also beyond the current tokens: equal in every turn
    for (int64_t at = 0; at < 4096; at += 17) starts.push_back(at);
    SubmittedTurn turn = GreedyTurn(++last_turn_, timeline, std::move(tokens), std::move(starts), window, max_tokens);
    turn.request.sampling.logprobs = 2;
    turn.request.owner = "conv_" + std::to_string(timeline);
    turn.request.tenant = turn.request.owner;  // separate tenants, so that none reuses another's slot
    return turn;
  }
  struct Answer {
    std::vector<TokenId> ids;
    std::vector<float> leads;
    TurnEnd end;
  };
  static Answer Wait(const SubmittedTurn& turn) {
    Answer answer;
    answer.end = turn.sink->Wait();
    EXPECT_EQ(answer.end.reason, FinishReason::kLength) << answer.end.error.ToString();
    answer.ids = turn.sink->ids();
    answer.leads = turn.sink->leads();
    return answer;
  }
  Answer Run(const SubmittedTurn& turn) {
    const Status accepted = engine_->Submit(turn.request);
    EXPECT_TRUE(accepted.ok()) << accepted.ToString();
    return accepted.ok() ? Wait(turn) : Answer{};
  }
  bool fixed() const { return testing::HasFixedOrder(GetParam()); }
  /// Requires equality if summation order is fixed or `exact` is set. Otherwise answers may diverge at a near-tie.
  void ExpectSame(const Answer& got, const Answer& want, bool exact, const std::string& what) {
    ASSERT_EQ(got.ids.size(), want.ids.size()) << what;
    ASSERT_EQ(want.leads.size(), want.ids.size()) << what;
    ++compared_;
    for (size_t i = 0; i < want.ids.size(); ++i) {
      if (got.ids[i] == want.ids[i]) continue;
      ++parted_;
      EXPECT_FALSE(exact || fixed()) << what << ": another token at " << i;
      EXPECT_LT(want.leads[i], NearTie()) << what << ": another token at " << i;
      return;
    }
  }
  /// In nats: the difference that two summation orders can cause in a log probability, with a margin.
  double NearTie() const { return 16 * testing::Rounding(type_); }
  std::vector<TokenId> Ids(size_t n, uint32_t seed) const { return ScatteredIds(n, model_->spec().vocab, seed); }
  static std::vector<TokenId> Joined(std::vector<TokenId> a, const std::vector<TokenId>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }
  void ReportParted() const {
    if (compared_ > 0)
      std::printf("%s: %d answers compared, %d parted at a near-tie\n", GetParam().c_str(), compared_, parted_);
  }

  std::vector<std::unique_ptr<Backend>> ranks_;           // one per rank, if there are several
  const Clock* clock_ = &SystemClock::Instance();         // of engines started from now on
  int64_t chunk_ = 64, memory_len_ = kWindow.memory_len;  // for engines started from now on
  std::unique_ptr<Model> model_;
  std::unique_ptr<WatchedNetwork> network_;
  std::unique_ptr<LetterTokenizer> tokenizer_;
  std::unique_ptr<TierFolder> folder_;
  TieredStore* tiers_ = nullptr;
  std::unique_ptr<Engine> engine_;
  TurnId last_turn_ = 0;
  int compared_ = 0, parted_ = 0;
};

}  // namespace ringside
