// A network whose layers are split into stages: the bits equal one rank's, for every family, number of stages,
// micro-batching and window; a cache saved by some layout continues on any other; every rank has only its own part;
// what cannot be split is refused, and a stage that fails to do its part fails the network.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "cache/snapshot.h"
#include "engine/model/decoder/micro_batches.h"
#include "engine/model/weights/shard.h"
#include "kernels/deferred_token.h"
#include "tests/engine/model/deep_model.h"
#include "tests/engine/model/model_run.h"
#include "tests/kernels/devices.h"
#include "tests/kernels/forwarding_backend.h"

namespace ringside {
namespace {

constexpr int64_t kLayers = 5;
constexpr RingWindow kSmall{4, 24, Eviction::kToken}, kLarge{0, 100, Eviction::kToken};
constexpr RankLayout kAlone{};

/// A model, alone or split.
struct StagedRanks {
  StagedRanks(const std::string& path, const RankLayout& layout)
      : StagedRanks(path, layout, testing::MakeTestRanks("cpu", layout)) {}
  StagedRanks(const std::string& path, const RankLayout& layout, std::vector<std::unique_ptr<Backend>> made)
      : backends(std::move(made)) {
    std::vector<Backend*> all;
    for (const auto& backend : backends) all.push_back(backend.get());
    auto loaded = Model::Load(path, all, layout.stages);
    EXPECT_TRUE(loaded.ok()) << loaded.status().ToString();
    if (loaded.ok()) model = std::move(*loaded);
  }
  Model& operator*() const { return *model; }
  Model* operator->() const { return model.get(); }

  std::vector<std::unique_ptr<Backend>> backends;
  std::unique_ptr<Model> model;
};

using StagesCase = std::tuple<std::string, RankLayout>;  // a golden model
class StagedModel : public ::testing::TestWithParam<StagesCase> {
 protected:
  const RankLayout& layout() const { return std::get<1>(GetParam()); }
  /// Stages alone change no bit; tensor-parallel ranks sum in another order than one rank.
  void ExpectSame(const std::vector<float>& got, const std::vector<float>& want) const {
    if (layout().tensor == 1) {
      EXPECT_TRUE(got == want);
    } else {
      EXPECT_LT(RelativeError(got, want), 1e-5);
    }
  }

  const DeepModel deep_{std::get<0>(GetParam()), kLayers};
};

std::vector<StagesCase> StagesCases() {
  std::vector<StagesCase> cases;
  for (const char* name : {"llama", "qwen3", "gpt2"}) {
    for (const RankLayout layout : {RankLayout{1, 2}, {1, 3}, {1, 5}, {2, 2}, {2, 3}}) cases.emplace_back(name, layout);
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(All, StagedModel, ::testing::ValuesIn(StagesCases()), [](const auto& info) {
  const RankLayout& layout = std::get<1>(info.param);
  return std::get<0>(info.param) + "_" + std::to_string(layout.tensor) + "_ranks_" + std::to_string(layout.stages) +
         "_stages";
});

TEST_P(StagedModel, HasTheLogitsOfOneRank) {
  StagedRanks one(deep_.path(), kAlone), several(deep_.path(), layout());
  ASSERT_TRUE(one.model && several.model);
  EXPECT_EQ(one->fingerprint(), several->fingerprint());
  const std::vector<TokenId> ids = ScatteredIds(60, one->spec().vocab);
  for (const RingWindow& window : {kSmall, kLarge}) {
    for (const int64_t chunk : {1, 13, 60}) {  // 60 rows are split into several micro-batches
      OwnCache alone(*one, window, chunk), shared(*several, window, chunk);
      const std::vector<float> want = RunAll(*one, alone.get(), ids, chunk);
      ExpectSame(RunAll(*several, shared.get(), ids, chunk), want);
    }
  }
}

// Decode rows and prompts of many sequences in one step, split at every possible point.
TEST_P(StagedModel, EverySequenceOfAStepHasTheLogitsOfOneRank) {
  constexpr size_t kSequences = 40;
  std::vector<std::vector<float>> logits;
  for (const RankLayout& layout : {kAlone, layout()}) {
    StagedRanks ranks(deep_.path(), layout);
    ASSERT_TRUE(ranks.model);
    std::vector<OwnCache> caches;
    std::vector<std::vector<TokenId>> ids;
    std::vector<StepPart> parts;
    for (size_t i = 0; i < kSequences; ++i) {
      caches.emplace_back(*ranks, kSmall, 30);
      RunAll(*ranks, caches.back().get(), ScatteredIds(i % 30, 96, static_cast<uint32_t>(i)), 30);
      ids.push_back(ScatteredIds(i % 10 == 7 ? 30 : 1, 96, static_cast<uint32_t>(100 + i)));
    }
    size_t wanted = 0;
    for (size_t i = 0; i < kSequences; ++i) {
      parts.push_back({caches[i].get(), ids[i], StepPart::Logits::kAll});
      wanted += ids[i].size();
    }
    std::vector<float> out(wanted * static_cast<size_t>(ranks->spec().vocab));
    ranks->Forward(parts, out);
    logits.push_back(std::move(out));
  }
  ExpectSame(logits[1], logits[0]);
}

TEST_P(StagedModel, CachesContinueUnderAnySharding) {
  StagedRanks first(deep_.path(), layout());
  ASSERT_TRUE(first.model);
  const std::vector<TokenId> ids = ScatteredIds(50, 96), more = ScatteredIds(6, 90, 2);
  OwnCache cache(*first, kSmall, 10);
  RunAll(*first, cache.get(), ids, 10);
  Snapshot saved = Snapshot::Capture(*cache.get(), first->memory(), {first->fingerprint()}, ids, 0);
  const std::vector<float> want = RunAll(*first, cache.get(), more, 10);
  for (const RankLayout other : {kAlone, {2, 1}, {1, 2}, {1, 3}, {2, 2}}) {
    StagedRanks second(deep_.path(), other);
    ASSERT_TRUE(second.model);
    OwnCache restored(*second, kSmall, 10);
    ASSERT_TRUE(saved.Restore(*restored.get(), second->memory(), {second->fingerprint()}).ok());
    EXPECT_LT(RelativeError(RunAll(*second, restored.get(), more, 10), want), 1e-5)
        << other.tensor << " ranks, " << other.stages << " stages";
    // A cache saved by these continues on the first.
    std::vector<TokenId> all = ids;
    all.insert(all.end(), more.begin(), more.end());
    Snapshot again = Snapshot::Capture(*restored.get(), second->memory(), {second->fingerprint()}, all, 0);
    OwnCache back(*first, kSmall, 10), kept(*first, kSmall, 10);
    ASSERT_TRUE(saved.Restore(*kept.get(), first->memory(), {first->fingerprint()}).ok());
    RunAll(*first, kept.get(), more, 10);
    ASSERT_TRUE(again.Restore(*back.get(), first->memory(), {first->fingerprint()}).ok());
    const std::vector<TokenId> last = ScatteredIds(5, 96, 3);
    EXPECT_LT(RelativeError(RunAll(*first, back.get(), last, 10), RunAll(*first, kept.get(), last, 10)), 1e-5);
  }
}

// A step may begin with tokens sampled by the previous step, which only the last stage knows.
TEST_P(StagedModel, FirstStageReceivesTheChosenTokens) {
  std::vector<std::vector<int32_t>> chosen;
  for (const RankLayout& layout : {kAlone, layout()}) {
    StagedRanks ranks(deep_.path(), layout);
    ASSERT_TRUE(ranks.model);
    const std::vector<TokenId> prompts[] = {ScatteredIds(9, 96), ScatteredIds(30, 96, 2)};
    OwnCache caches[] = {{*ranks, kSmall, 30}, {*ranks, kSmall, 30}};
    const RowSamplingParams greedy[2] = {{.top_k = 1}, {.top_k = 1}};
    std::vector<StepPart> parts;
    for (size_t i = 0; i < 2; ++i) parts.push_back({caches[i].get(), prompts[i], StepPart::Logits::kLast});
    ranks->Begin(parts, greedy);
    const TokenId awaited[] = {DeferredToken(1), DeferredToken(0)};
    std::vector<int32_t>& ids = chosen.emplace_back();
    for (int step = 0; step < 6; ++step) {  // the parts are permuted in every step
      std::swap(parts[0].cache, parts[1].cache);
      for (size_t i = 0; i < 2; ++i) parts[i].tokens = {&awaited[i], 1};
      if (step % 2 == 0) {
        ranks->Begin(parts, greedy);
      } else {
        ranks->BeginDeferred(parts);
      }
      SampledToken tokens[2];
      ranks->Finish(tokens);
      for (const SampledToken& token : tokens) ids.push_back(token.id);
      if (step % 2 == 1) ranks->Choose(greedy);
    }
    SampledToken tokens[2];
    ranks->Finish(tokens);
    for (const SampledToken& token : tokens) ids.push_back(token.id);
  }
  EXPECT_EQ(chosen[1], chosen[0]);
  EXPECT_GT(std::set<int32_t>(chosen[0].begin(), chosen[0].end()).size(), 1u);
}

/// A rank's backend that counts its allocations.
class CountingBackend : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  Result<Buffer> Reserve(size_t bytes) override {
    reserved += bytes;
    return ForwardingBackend::Reserve(bytes);
  }
  Result<Weight> LoadWeight(const HostTensor& host) override {
    loaded += host.bytes.size();
    return ForwardingBackend::LoadWeight(host);
  }
  Result<Buffer> Allocate(size_t bytes) override {
    allocated += bytes;
    return ForwardingBackend::Allocate(bytes);
  }
  size_t reserved = 0, loaded = 0, allocated = 0;
};

std::vector<std::unique_ptr<Backend>> CountingRanks(const RankLayout& layout) {
  std::vector<std::unique_ptr<Backend>> ranks;
  for (auto& rank : testing::MakeTestRanks("cpu", layout)) {
    ranks.push_back(std::make_unique<CountingBackend>(std::move(rank)));
  }
  return ranks;
}
const CountingBackend& Counts(const StagedRanks& ranks, size_t rank) {
  return static_cast<const CountingBackend&>(*ranks.backends[rank]);
}

TEST(StagedModelTest, EveryRankHasOnlyItsPart) {
  for (const std::string name : {"llama", "gpt2"}) {
    const DeepModel deep(name, kLayers);
    StagedRanks one(deep.path(), kAlone, CountingRanks(kAlone));
    const RankLayout layout{1, 3};
    StagedRanks three(deep.path(), layout, CountingRanks(layout));
    ASSERT_TRUE(one.model && three.model);
    const ModelSpec& spec = one->spec();
    const auto table = static_cast<size_t>(spec.vocab * spec.hidden) * sizeof(float);
    size_t loaded = 0;
    for (size_t rank = 0; rank < 3; ++rank) loaded += Counts(three, rank).loaded;
    EXPECT_EQ(loaded, Counts(one, 0).loaded + (spec.tied_head ? table : 0)) << "a tied table is in two stages";
    OwnCache alone(*one, kSmall, 10), shared(*three, kSmall, 10);
    // Rank 0 has the last stage: layers 3 and 4; the next has 1 and 2; then 0.
    const size_t tile = Counts(one, 0).reserved / kLayers;
    EXPECT_EQ(Counts(three, 0).reserved, 2 * tile);
    EXPECT_EQ(Counts(three, 1).reserved, 2 * tile);
    EXPECT_EQ(Counts(three, 2).reserved, tile);
  }
}

TEST(StagedModelTest, ScratchMemoryFitsOneMicroBatch) {
  const DeepModel deep("llama", kLayers);
  const RankLayout layout{1, 3};
  StagedRanks one(deep.path(), kAlone, CountingRanks(kAlone)), three(deep.path(), layout, CountingRanks(layout));
  ASSERT_TRUE(one.model && three.model);
  std::vector<size_t> before;
  for (size_t rank = 0; rank < 3; ++rank) before.push_back(Counts(three, rank).allocated);
  const size_t before_one = Counts(one, 0).allocated;
  ASSERT_TRUE(one->Reserve(512).ok() && three->Reserve(512).ok());
  const size_t all = Counts(one, 0).allocated - before_one;
  EXPECT_LT(Counts(three, 1).allocated - before[1], all / 4);
  EXPECT_LT(Counts(three, 0).allocated - before[0], all) << "the choice needs all rows, layers do not";
  for (size_t rank = 0; rank < 3; ++rank) before[rank] = Counts(three, rank).allocated;
  OwnCache cache(*three, kLarge, 512);
  for (const int64_t rows : {1, 17, 31, 47, 100, 512}) {
    const std::vector<TokenId> ids = ScatteredIds(static_cast<size_t>(rows), 96);
    const StepPart part{cache.get(), ids, StepPart::Logits::kLast};
    const RowSamplingParams greedy{.top_k = 1};
    three->Begin({&part, 1}, {&greedy, 1});
    SampledToken token;
    three->Finish({&token, 1});
  }
  for (size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(Counts(three, rank).allocated, before[rank]) << rank;
}

TEST(StagedModelTest, RefusesMoreStagesThanLayers) {
  const DeepModel deep("llama", 3);
  const auto backends = testing::MakeTestRanks("cpu", {.tensor = 1, .stages = 4});
  std::vector<Backend*> all;
  for (const auto& backend : backends) all.push_back(backend.get());
  const auto loaded = Model::Load(deep.path(), all, 4);
  EXPECT_EQ(loaded.status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(loaded.status().message().ends_with("3 layers cannot be shared by 4 stages"))
      << loaded.status().message();
}

/// A rank that never sends its results.
class SilentBackend : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  Status status() const override { return inner().status(); }
  void SendRows(Tensor) override {}
};

TEST(StagedModelTest, StalledStageFailsTheNetwork) {
  const DeepModel deep("llama", 3);
  for (const RankLayout layout : {RankLayout{1, 3}, {2, 3}}) {
    auto backends = testing::MakeTestRanks("cpu", layout, std::chrono::milliseconds(300));
    auto& silent = backends[static_cast<size_t>(layout.tensor)];  // of the middle stage
    silent = std::make_unique<SilentBackend>(std::move(silent));
    StagedRanks ranks(deep.path(), layout, std::move(backends));
    ASSERT_TRUE(ranks.model);
    OwnCache cache(*ranks, kSmall, 10);
    const std::vector<TokenId> ids = ScatteredIds(4, 96);
    const StepPart part{cache.get(), ids, StepPart::Logits::kLast};
    const RowSamplingParams greedy{.top_k = 1};
    for (int step = 0; step < 3; ++step) {  // only the first one waits
      ranks->Begin({&part, 1}, {&greedy, 1});
      SampledToken token;
      ranks->Finish({&token, 1});
      EXPECT_EQ(ranks->memory().status().code(), StatusCode::kUnavailable);
    }
    if (layout.tensor > 1) continue;  // another rank of the stage may notice first
    EXPECT_THAT(ranks->memory().status().message(), ::testing::EndsWith("sent no data within 300 ms"));
  }
}

TEST(ShardTest, EveryLayerBelongsToAStage) {
  ModelSpec spec;
  spec.heads = 4, spec.kv_heads = 2, spec.head_dim = 16, spec.ffn = 64, spec.vocab = 96;
  for (spec.layers = 1; spec.layers < 9; ++spec.layers) {
    for (int stages = 1; stages <= spec.layers; ++stages) {
      const auto shards = MakeShards(spec, {2, stages});
      ASSERT_TRUE(shards.ok());
      ASSERT_EQ(std::ssize(*shards), 2 * stages);
      EXPECT_EQ(VocabBorders(*shards), VocabBorders(*MakeShards(spec, {2, 1})));
      EXPECT_TRUE(shards->front().chooses()) << "rank 0 brings the tokens";
      for (int stage = 0, next = 0; stage < stages; ++stage) {
        for (const Shard& shard : *shards) {
          if (shard.stage != stage) continue;
          EXPECT_EQ(shard.layers.begin, next);
          EXPECT_GT(shard.layers.size(), 0);
          EXPECT_EQ(shard.embeds(), stage == 0);
          EXPECT_EQ(shard.chooses(), stage == stages - 1);
        }
        next += static_cast<int>(shards->at(static_cast<size_t>(2 * (stages - 1 - stage))).layers.size());
        EXPECT_EQ(next == spec.layers, stage == stages - 1);
      }
    }
  }
}

// Steps of all kinds: however they are split, every row is in exactly one micro-batch, in order, with its own position
// and angles.
TEST(MicroBatchTest, EveryRowIsInOneMicroBatch) {
  uint32_t state = 1;
  const auto random = [&](int64_t below) {
    state = state * 1664525u + 1013904223u;
    return static_cast<int64_t>(state >> 8) % below;
  };
  constexpr int64_t kPairs = 3, kBusy = 8;
  for (int step = 0; step < 300; ++step) {
    const int stages = 1 + static_cast<int>(random(4));
    StepPlan plan;
    for (int64_t i = random(30); i >= 0; --i) {
      AttentionSegment segment{.first_row = plan.rows(), .rows = random(3) == 0 ? 1 + random(90) : 1};
      segment.position = 1000 * (1 + std::ssize(plan.segments));
      for (int64_t r = 0; r < segment.rows; ++r) {
        plan.ids.push_back(0);
        plan.positions.push_back(segment.position + r);
      }
      plan.segments.push_back(segment);
    }
    std::vector<float> own_cos(static_cast<size_t>(plan.rows() * 2 * kPairs));
    plan.angles.assign(2, {own_cos.data(), own_cos.data(), own_cos.data(), own_cos.data()});
    const int64_t pairs[] = {kPairs, 2 * kPairs};
    for (AttentionSegment& segment : plan.segments) segment.first_live = plan.positions.data() + segment.first_row;
    const std::vector<MicroBatch> batches = SplitIntoMicroBatches(plan, plan.segments, pairs, stages, kBusy);
    EXPECT_EQ(std::ssize(batches), CountMicroBatches(plan.rows(), stages, kBusy));
    int64_t next = 0;
    for (const MicroBatch& batch : batches) {
      EXPECT_EQ(batch.first_row, next);
      EXPECT_LE(batch.rows, LargestMicroBatch(plan.rows(), stages, kBusy));
      EXPECT_EQ(batch.angles.front().pinned_sin - own_cos.data(), batch.first_row * kPairs);
      EXPECT_EQ(batch.angles.back().pinned_sin - own_cos.data(), batch.first_row * 2 * kPairs);
      int64_t row = 0;
      for (const AttentionSegment& segment : batch.segments) {
        EXPECT_EQ(segment.first_row, row);
        EXPECT_GT(segment.rows, 0);
        for (int64_t r = 0; r < segment.rows; ++r, ++row) {
          EXPECT_EQ(segment.position + r, plan.positions[static_cast<size_t>(next + row)]);
          EXPECT_EQ(segment.first_live[r], segment.position + r);
        }
      }
      EXPECT_EQ(row, batch.rows);
      next += batch.rows;
    }
    EXPECT_EQ(next, plan.rows());
  }
}

// A recurrent network's prompt of 200 rows that stores the states at 64 and 192: it is cut only where the next part's
// state exists, and each part stores its last boundary.
TEST(MicroBatchTest, PartsOfRecurrentPromptsFindTheirStates) {
  const StateWrite writes[] = {{64, 2}, {192, 0}};
  StepPlan plan;
  plan.ids.resize(210);
  plan.segments = {{.first_row = 0, .rows = 200, .position = 10, .state_slot = -1, .state_writes = writes},
                   {.first_row = 200, .rows = 10, .position = 70, .slab = &plan, .state_slot = 1}};
  std::vector<int64_t> live(210);
  for (AttentionSegment& segment : plan.segments) segment.first_live = live.data() + segment.first_row;
  const std::vector<MicroBatch> batches = SplitIntoMicroBatches(plan, plan.segments, {}, 3, 16, true);
  EXPECT_GT(batches.size(), 3u);
  int64_t rows = 0;
  for (const MicroBatch& batch : batches) {
    EXPECT_EQ(batch.first_row, rows);
    rows += batch.rows;
    for (const AttentionSegment& segment : batch.segments) {
      int64_t last = StateShape::BoundaryBefore(segment.position);
      EXPECT_EQ(segment.state_slot, segment.slab != nullptr ? 1 : last == 192 ? 0 : last == 64 ? 2 : -1);
      for (const StateWrite& write : segment.state_writes) {
        EXPECT_TRUE(write.position > last && write.slot != segment.state_slot);
        last = write.position;
      }
      EXPECT_EQ(last, StateShape::BoundaryBefore(segment.position + segment.rows));
    }
  }
  EXPECT_EQ(rows, 210);
}

TEST(MicroBatchTest, SplitsIntoMicroBatches) {
  EXPECT_EQ(CountMicroBatches(1, 3, 16), 1);
  EXPECT_EQ(CountMicroBatches(31, 3, 16), 1);
  EXPECT_EQ(CountMicroBatches(32, 3, 16), 2);
  EXPECT_EQ(CountMicroBatches(1000, 3, 16), 12);
  EXPECT_EQ(CountMicroBatches(1000, 1, 16), 1);
  // Two prompts of 45 and 55 rows: their boundary is near the middle.
  StepPlan plan;
  plan.ids.resize(100);
  plan.segments = {{.first_row = 0, .rows = 45}, {.first_row = 45, .rows = 55}};
  std::vector<int64_t> live(100);
  for (AttentionSegment& segment : plan.segments) segment.first_live = live.data() + segment.first_row;
  const std::vector<MicroBatch> batches = SplitIntoMicroBatches(plan, plan.segments, {}, 2, 40);
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_EQ(batches[0].rows, 45);
  EXPECT_EQ(batches[1].segments.size(), 1u);
}

}  // namespace
}  // namespace ringside
