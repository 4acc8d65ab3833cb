// A conversation that is evicted from its slot and restored continues as if it had stayed: at every split point,
// through memory, disk and a restart, greedy and seeded, also with a wrapped ring. The test compares rows and recurrent
// state bit for bit before every step, tokens and log probabilities after it, and checks that the report matches the
// computed rows.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>

#include "tests/engine/engine_harness.h"
#include "tests/engine/forwarding_network.h"
#include "tests/engine/model/model_run.h"
#include "tests/engine/tiers/tiers_harness.h"
#include "tests/sanitized.h"

namespace ringside {
namespace {

constexpr int64_t kPrompt = 40, kSplits = 200;  // splits 1 .. kSplits - 1 of kSplits + 1 tokens
constexpr int64_t kFetchMs = 60'000;

/// A network that hashes, before each step, the rows that the next token of each part attends to and the state that it
/// continues, and compares them with the recorded hashes.
class RowWatch final : public ForwardingNetwork {
 public:
  using ForwardingNetwork::ForwardingNetwork;

  void set_remembering(bool remembering) { remembering_ = remembering; }
  size_t remembered() const { return rows_.size(); }
  int64_t compared() const { return compared_; }
  void CountAnew() {
    compared_ = 0;
    different_.clear();
  }
  /// Positions at which rows differed.
  std::vector<int64_t> different() const { return different_; }

 private:
  void Before(std::span<const StepPart> parts) override {
    for (const StepPart& part : parts) Look(*part.cache);
  }
  void Look(const KvCache& cache) {
    const Ring& ring = cache.ring();
    const KvShape& shape = cache.shape();
    const int64_t next = ring.next(), pinned = ring.window().pinned;
    if (next == 0 || !ring.CanRollBack(next)) return;
    bytes_.clear();
    const auto element = static_cast<size_t>(shape.element_bytes());
    const auto add = [&](int64_t position) {
      const int64_t slot = shape.Slot(position, pinned), lane = slot % KvShape::kTile;
      for (int64_t layer = 0; layer < shape.layers; ++layer) {
        for (int64_t head = 0; head < shape.kv_heads; ++head) {
          const std::byte* keys =
              static_cast<const std::byte*>(cache.slab()) + shape.TileOffset(layer, slot / KvShape::kTile, head);
          for (int64_t d = 0; d < shape.head_dim; ++d) {
            const std::byte* at = keys + static_cast<size_t>(d * KvShape::kTile + lane) * element;
            bytes_.insert(bytes_.end(), at, at + element);
          }
          const std::byte* value =
              keys + shape.half_tile_bytes() + static_cast<size_t>(lane * shape.head_dim) * element;
          bytes_.insert(bytes_.end(), value, value + static_cast<size_t>(shape.head_dim) * element);
        }
      }
    };
    for (int64_t p = 0; p < std::min(pinned, next); ++p) add(p);
    for (int64_t p = ring.FirstLive(next); p < next; ++p) add(p);
    AddState(cache);
    const ChunkHash hash = HashOf(bytes_);
    if (remembering_) {
      rows_[next] = hash;
    } else if (const auto found = rows_.find(next); found != rows_.end()) {
      ++compared_;
      if (found->second != hash) different_.push_back(next);
    }
  }

  void AddState(const KvCache& cache) {
    const StateShape& shape = cache.shape().state;
    const auto add = [&](int64_t offset, int64_t bytes) {
      const auto* at = static_cast<const std::byte*>(cache.slab()) + offset;
      bytes_.insert(bytes_.end(), at, at + bytes);
    };
    const int64_t next = cache.ring().next(), boundary = StateShape::BoundaryBefore(next);
    const int slot = cache.state().SlotOf(boundary);
    if (slot >= 0) add(shape.BoundaryOffset(slot, 0), shape.slot_bytes());
    for (int64_t layer = 0; layer < shape.layers; ++layer) {
      for (int64_t p = boundary; p < next; ++p) add(shape.TailOffset(layer, p), shape.tail_row_bytes);
    }
  }

  bool remembering_ = false;
  std::map<int64_t, ChunkHash> rows_;  // by the position of the next token
  std::vector<std::byte> bytes_;
  int64_t compared_ = 0;
  std::vector<int64_t> different_;
};

enum class Way { kHost, kDisk, kRestart };

struct Trip {
  const char* name;
  const char* model;  // under tests/golden; "" = the real one
  int64_t memory_len;
  bool seeded;
  Way way;
  std::vector<int64_t> splits;  // empty = every one
  DType dtype = DType::kF16;
};

class SplitPoint : public ::testing::TestWithParam<Trip> {
 protected:
  void LoadModel(const std::string& path) {
    backend_ = MakeTestBackend(path.find("golden") == std::string::npos ? 0 : 1);
    auto model = Model::Load(path, *backend_);
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    model_ = std::move(*model);
    watch_ = std::make_unique<RowWatch>(*model_);
    tokenizer_ = std::make_unique<LetterTokenizer>(model_->spec().vocab);
  }
  void StartEngine(int64_t slots, int64_t chunk, TieredStore* tiers) {
    EngineOptions options;
    options.slots = slots;
    options.memory_len = GetParam().memory_len;
    options.pinned_max = 16;
    options.prefill_chunk = chunk;
    options.kv_dtype = GetParam().dtype;
    EngineStorage storage{.tiers = tiers, .fingerprint = model_->fingerprint(), .fetch_deadline_ms = kFetchMs};
    auto engine = Engine::Start(*watch_, *tokenizer_, options, storage);
    ASSERT_TRUE(engine.ok()) << engine.status().ToString();
    engine_ = std::move(*engine);
  }
  SubmittedTurn Turn(TurnId turn, TimelineId timeline, size_t tokens, int64_t max_tokens) {
    std::vector<int64_t> starts;
    for (const int64_t start : {0, 6, 17, 29, 52, 53, 96, 131, 170}) {
      if (start < static_cast<int64_t>(tokens) && start < kPrompt) starts.push_back(start);
    }
    const RingWindow window{5, GetParam().memory_len, Eviction::kTurn};
    SubmittedTurn out = GreedyTurn(turn, timeline, {all_.begin(), all_.begin() + static_cast<int64_t>(tokens)}, starts,
                                   window, max_tokens);
    out.request.owner = "conv_" + std::to_string(timeline % kSplits);
    out.request.tenant = out.request.owner;  // separate tenants, so that none reuses another's slot
    out.request.sampling.logprobs = 0;
    if (GetParam().seeded) {
      out.request.sampling.temperature = 1.0;
      out.request.sampling.top_p = 0.95;
      out.request.sampling.seed = 77;
    }
    EXPECT_TRUE(engine_->Submit(out.request).ok());
    return out;
  }
  /// The whole conversation on a separate engine, token by token, never evicted.
  void RunUninterrupted() {
    all_ = ScatteredIds(kPrompt, model_->spec().vocab, 3);
    watch_->set_remembering(true);
    StartEngine(1, 1, nullptr);
    SubmittedTurn turn = Turn(1, 1, kPrompt, kSplits + 1 - kPrompt);
    const TurnEnd end = turn.sink->Wait();
    ASSERT_EQ(end.reason, FinishReason::kLength) << end.error.ToString();
    all_.insert(all_.end(), end.output.begin(), end.output.end());
    logprobs_ = turn.sink->logprobs();
    engine_.reset();
    watch_->set_remembering(false);
    ASSERT_EQ(all_.size(), static_cast<size_t>(kSplits + 1));
    ASSERT_EQ(watch_->remembered(), static_cast<size_t>(kSplits - 1));
  }
  std::vector<int64_t> Splits() const {
    const std::vector<int64_t>& named = GetParam().splits;
    if (!named.empty()) return kSanitized ? std::vector<int64_t>{named[named.size() / 2]} : named;
    std::vector<int64_t> out;
    // With a sanitizer every fifth split, which covers each offset in a tile of 16 twice.
    for (int64_t split = 1; split < kSplits; split += kSanitized ? 5 : 1) out.push_back(split);
    return out;
  }
  CacheSource Source() const { return GetParam().way == Way::kHost ? CacheSource::kHost : CacheSource::kDisk; }

  /// Waits until every cache has reached the tier under test.
  void Leave(TierFolder& folder, TieredStore** tiers, int64_t slots) {
    if (GetParam().way == Way::kRestart) {
      ASSERT_TRUE(WaitFor([&](auto done) { engine_->SaveAll(done); }).ok());
      engine_.reset();
      *tiers = &folder.Open(kRoom, kRoom);
      return StartEngine(slots, 16, *tiers);
    }
    ASSERT_TRUE(WaitFor([&](auto done) { engine_->Erase(0, "", done); }).ok());
    if (GetParam().way == Way::kDisk) {
      (*tiers)->Sweep();
      ASSERT_EQ((*tiers)->stats().host_objects, 0);
    }
  }
  /// Asserts that the turn continued from `split` restored tokens exactly like the uninterrupted run.
  void ExpectContinues(const SubmittedTurn& turn, int64_t split) {
    const TurnEnd end = turn.sink->Wait();
    const auto given = static_cast<int64_t>(turn.request.tokens.size());
    ASSERT_EQ(end.reason, FinishReason::kLength) << end.error.ToString();
    EXPECT_EQ(end.report.source, Source()) << split;
    EXPECT_EQ(end.report.tokens_reused, split);
    EXPECT_EQ(end.report.tokens_computed, given - split) << split;
    EXPECT_EQ(end.report.position, given + turn.request.max_tokens);
    const auto from = all_.begin() + given;
    ASSERT_EQ(end.output, std::vector<TokenId>(from, from + turn.request.max_tokens)) << "split at " << split;
    const std::vector<float> got = turn.sink->logprobs();
    const auto answered = static_cast<size_t>(given - kPrompt);
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(std::memcmp(&got[i], &logprobs_[answered + i], sizeof(float)), 0)
          << "log probability of token " << given + static_cast<int64_t>(i) << " after a split at " << split;
    }
  }
  /// Runs conversations up to their split points, evicts them, and continues each to the end.
  void SplitEverywhere(int64_t slots) {
    TierFolder folder;
    TieredStore* tiers = &folder.Open(kRoom, kRoom);
    StartEngine(slots, 16, tiers);
    std::vector<SubmittedTurn> turns;
    for (const int64_t split : Splits())
      turns.push_back(Turn(1, static_cast<TimelineId>(split), static_cast<size_t>(split), 0));
    for (auto& turn : turns) ASSERT_EQ(turn.sink->Wait().reason, FinishReason::kStop);
    for (const int64_t split : Splits()) engine_->Park(static_cast<TimelineId>(split));
    Leave(folder, &tiers, slots);
    // The first rows of a shortened replay differ from the uninterrupted run; restored rows do not.
    watch_->CountAnew();
    int64_t compared = 0;
    const std::vector<int64_t> splits = Splits();
    for (size_t first = 0; first < splits.size(); first += static_cast<size_t>(slots)) {
      const size_t last = std::min(splits.size(), first + static_cast<size_t>(slots));
      turns.clear();
      for (size_t i = first; i < last; ++i) {
        // Inside the prompt the model's own continuation would differ: the rest of the prompt is given.
        const int64_t given = std::max(splits[i] + 1, kPrompt);
        turns.push_back(
            Turn(1, static_cast<TimelineId>(kSplits + splits[i]), static_cast<size_t>(given), kSplits + 1 - given));
      }
      for (size_t i = first; i < last; ++i) ExpectContinues(turns[i - first], splits[i]);
      compared += static_cast<int64_t>(last - first);
    }
    // At least the restored rows, for every split.
    EXPECT_GE(watch_->compared(), compared);
    EXPECT_EQ(watch_->different(), std::vector<int64_t>{});
  }
  /// One conversation that is evicted after every single token.
  void LeaveAfterEveryToken() {
    TierFolder folder(/*in_memory=*/true);  // hundreds of syncs
    TieredStore* tiers = &folder.Open(kRoom, kRoom);
    StartEngine(1, 16, tiers);
    Turn(1, kSplits, kPrompt - 1, 0).sink->Wait();
    watch_->CountAnew();
    for (int64_t split = kPrompt - 1; split < kSplits; ++split) {
      engine_->Park(kSplits);
      Leave(folder, &tiers, 1);
      ExpectContinues(Turn(1, kSplits, static_cast<size_t>(split + 1), 1), split);
      if (HasFatalFailure()) return;
    }
    EXPECT_GE(watch_->compared(), kSplits - kPrompt);
    EXPECT_EQ(watch_->different(), std::vector<int64_t>{});
  }

  static constexpr int64_t kRoom = int64_t{1} << 30;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<RowWatch> watch_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<Engine> engine_;
  std::vector<TokenId> all_;     // the uninterrupted conversation
  std::vector<float> logprobs_;  // of its answer
};

using TinyModelSplitPoint = SplitPoint;
TEST_P(TinyModelSplitPoint, ContinuesExactlyAfterARestore) {
  LoadModel(GoldenFolder(GetParam().model));
  RunUninterrupted();
  SplitEverywhere(8);
  if (GetParam().memory_len < kPrompt + 1) LeaveAfterEveryToken();
}

std::string TripName(const ::testing::TestParamInfo<Trip>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(
    All, TinyModelSplitPoint,
    ::testing::Values(Trip{"host_greedy", "llama", 256, false, Way::kHost, {}},
                      Trip{"host_seeded", "llama", 256, true, Way::kHost, {}},
                      Trip{"host_greedy_wrapped", "llama", 40, false, Way::kHost, {}},
                      Trip{"host_seeded_wrapped", "llama", 40, true, Way::kHost, {}, DType::kF32},
                      Trip{"disk_greedy", "llama", 256, false, Way::kDisk, {}},
                      Trip{"disk_seeded", "llama", 256, true, Way::kDisk, {}, DType::kBF16},
                      Trip{"disk_greedy_wrapped", "llama", 40, false, Way::kDisk, {}},
                      Trip{"disk_seeded_wrapped", "llama", 40, true, Way::kDisk, {}},
                      Trip{"disk_seeded_wrapped_e4m3", "llama", 40, true, Way::kDisk, {}, DType::kF8E4M3},
                      Trip{"restart_greedy", "llama", 256, false, Way::kRestart, {}},
                      Trip{"restart_seeded", "llama", 256, true, Way::kRestart, {}},
                      Trip{"restart_greedy_wrapped", "llama", 40, false, Way::kRestart, {}},
                      Trip{"restart_seeded_wrapped", "llama", 40, true, Way::kRestart, {}},
                      Trip{"quantised_host_seeded_wrapped", "gguf_q8_0/model.gguf", 40, true, Way::kHost, {}},
                      Trip{"qwen3_restart_seeded_wrapped", "qwen3", 40, true, Way::kRestart, {}}),
    TripName);

// Each kind of recurrent layer, around the boundaries of its state.
const std::vector<int64_t> kStateSplits = {1, 40, 63, 64, 65, 100, 127, 128, 129, 191, 192, 199};
INSTANTIATE_TEST_SUITE_P(
    Recurrent, TinyModelSplitPoint,
    ::testing::Values(Trip{"qwen3_next_host_greedy", "families/qwen3_next", 256, false, Way::kHost, kStateSplits},
                      Trip{"qwen3_5_disk_seeded_wrapped", "families/qwen3_5_text", 40, true, Way::kDisk, kStateSplits},
                      Trip{"lfm2_restart_greedy_wrapped", "families/lfm2", 40, false, Way::kRestart, kStateSplits},
                      Trip{"nemotron_h_restart_seeded", "families/nemotron_h", 256, true, Way::kRestart, kStateSplits},
                      Trip{"granite_hybrid_disk_greedy", "families/granitemoehybrid", 256, false, Way::kDisk,
                           kStateSplits}),
    TripName);

using RealModelSplitPoint = SplitPoint;
TEST_P(RealModelSplitPoint, ContinuesExactlyAfterARestore) {
  const char* path = std::getenv("RINGSIDE_TEST_MODEL");
  if (path == nullptr) GTEST_SKIP() << "RINGSIDE_TEST_MODEL is not set";
  LoadModel(path);
  RunUninterrupted();
  SplitEverywhere(2);
}

INSTANTIATE_TEST_SUITE_P(All, RealModelSplitPoint,
                         ::testing::Values(Trip{"host_greedy", "", 256, false, Way::kHost, {1, 40, 101, 199}},
                                           Trip{"disk_seeded_wrapped", "", 64, true, Way::kDisk, {17, 69, 128, 190}},
                                           Trip{"restart_seeded", "", 256, true, Way::kRestart, {16, 64, 150}},
                                           Trip{"restart_greedy_wrapped", "", 64, false, Way::kRestart, {5, 90, 177}}),
                         TripName);

}  // namespace
}  // namespace ringside
