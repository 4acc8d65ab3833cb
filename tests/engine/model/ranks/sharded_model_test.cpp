// A network shared by ranks: the logits equal one rank's, for every family, number of ranks and window; a cache saved
// by some ranks continues on others; what cannot be sharded is refused.
#include <gtest/gtest.h>

#include <thread>

#include "cache/snapshot.h"
#include "engine/model/weights/shard.h"
#include "tests/engine/model/model_run.h"
#include "tests/engine/model/ranks/thread_processes.h"
#include "tests/kernels/devices.h"

namespace ringside {
namespace {

/// A model, alone or sharded.
struct Ranks {
  explicit Ranks(const std::string& name, int ranks) {
    backends = testing::MakeTestRanks("cpu", {.tensor = ranks});
    auto loaded = Model::Load(GoldenFolder(name), Pointers(backends));
    EXPECT_TRUE(loaded.ok()) << loaded.status().ToString();
    if (loaded.ok()) model = std::move(*loaded);
  }
  /// Several processes with an equal number of ranks each.
  Ranks(const std::string& name, int count, const RankLayout& layout)
      : processes(testing::ThreadProcesses::Make(count)) {
    for (int i = 1; i < count; ++i) {
      followers.emplace_back([this, name, layout, i] {
        const auto own = MakeRanksOf(i, layout);
        const Status followed = Model::Follow(GoldenFolder(name), Pointers(own), layout.stages, LoadFormat::kAuto,
                                              *processes[static_cast<size_t>(i)]);
        EXPECT_TRUE(followed.ok()) << followed.ToString();
      });
    }
    backends = MakeRanksOf(0, layout);
    auto loaded =
        Model::Load(GoldenFolder(name), Pointers(backends), layout.stages, LoadFormat::kAuto, *processes.front());
    EXPECT_TRUE(loaded.ok()) << loaded.status().ToString();
    if (loaded.ok()) model = std::move(*loaded);
  }
  ~Ranks() {
    model.reset();
    for (std::thread& follower : followers) follower.join();
  }

  std::vector<std::unique_ptr<Backend>> MakeRanksOf(int process, const RankLayout& layout) {
    auto comms = processes[static_cast<size_t>(process)]->MakeComms(0, layout, std::chrono::minutes(2));
    return std::move(MakeRanks(std::move(comms), [](int, RankComms comms) {
                       return MakeCpuBackend({.threads = 1}, std::move(comms));
                     }).value());
  }
  static std::vector<Backend*> Pointers(const std::vector<std::unique_ptr<Backend>>& backends) {
    std::vector<Backend*> all;
    for (const auto& backend : backends) all.push_back(backend.get());
    return all;
  }

  std::vector<std::unique_ptr<Processes>> processes;
  std::vector<std::unique_ptr<Backend>> backends;
  std::unique_ptr<Model> model;
  std::vector<std::thread> followers;
};

using RanksCase = std::tuple<std::string, int>;  // a golden model, ranks
class ShardedModel : public ::testing::TestWithParam<RanksCase> {};

std::vector<RanksCase> RanksCases() {
  std::vector<RanksCase> cases;
  for (const char* name : {"llama", "llama_biases", "qwen2", "qwen3", "mistral"}) {
    for (const int ranks : {2, 3, 4}) cases.emplace_back(name, ranks);
  }
  for (const char* name : {"gpt2", "gguf_q8_0/model.gguf"}) cases.emplace_back(name, 2);
  return cases;
}
INSTANTIATE_TEST_SUITE_P(All, ShardedModel, ::testing::ValuesIn(RanksCases()), [](const auto& info) {
  return std::get<0>(info.param).substr(0, std::get<0>(info.param).find('/')) + "_" +
         std::to_string(std::get<1>(info.param)) + "_ranks";
});

size_t Best(std::span<const float> row) { return static_cast<size_t>(std::ranges::max_element(row) - row.begin()); }

TEST_P(ShardedModel, HasTheLogitsOfOneRank) {
  const auto& [name, ranks] = GetParam();
  Ranks one(name, 1), several(name, ranks);
  ASSERT_TRUE(one.model && several.model);
  EXPECT_EQ(one.model->fingerprint(), several.model->fingerprint());
  const auto vocab = static_cast<size_t>(one.model->spec().vocab);
  const std::vector<TokenId> ids = ScatteredIds(60, one.model->spec().vocab);
  for (const RingWindow window : {RingWindow{4, 24, Eviction::kToken}, RingWindow{0, 100, Eviction::kToken}}) {
    for (const int64_t chunk : {1, 13}) {
      OwnCache alone(*one.model, window, chunk), shared(*several.model, window, chunk);
      const std::vector<float> want = RunAll(*one.model, alone.get(), ids, chunk);
      const std::vector<float> got = RunAll(*several.model, shared.get(), ids, chunk);
      EXPECT_LT(RelativeError(got, want), 1e-5);
      for (size_t i = 0; i < ids.size(); ++i) {
        EXPECT_EQ(Best(std::span(got).subspan(i * vocab, vocab)), Best(std::span(want).subspan(i * vocab, vocab)));
      }
    }
  }
}

// By their best candidates only, or by all logits if the sampling needs more; the results equal one rank's in both
// cases.
TEST_P(ShardedModel, ChoosesTheTokensOfOneRank) {
  const auto& [name, ranks] = GetParam();
  Ranks one(name, 1), several(name, ranks);
  ASSERT_TRUE(one.model && several.model);
  const RingWindow window{4, 24, Eviction::kToken};
  const std::vector<TokenId> ids = ScatteredIds(30, one.model->spec().vocab);
  const std::vector<int32_t> banned{ids.front()};
  const RowSamplingParams choices[] = {
      {.temperature = 0}, {.temperature = 0, .logprobs = 1}, {.banned = banned, .top_k = 1}};
  for (const RowSamplingParams& choice : choices) {
    std::vector<SampledToken> chosen[2];
    for (Model* model : {one.model.get(), several.model.get()}) {
      OwnCache cache(*model, window, 1);
      for (size_t i = 0; i < ids.size(); ++i) {
        const StepPart part{cache.get(), std::span(ids).subspan(i, 1), StepPart::Logits::kLast};
        model->Begin({&part, 1}, {&choice, 1});
        model->Finish({&chosen[model == one.model.get() ? 0 : 1].emplace_back(), 1});
      }
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(chosen[1][i].outcome, SampledToken::Outcome::kChosen);
      EXPECT_EQ(chosen[1][i].id, chosen[0][i].id) << i;
      EXPECT_EQ(chosen[1][i].tops, chosen[0][i].tops);
    }
  }
}

TEST_P(ShardedModel, ContinuesFromACacheSavedByOtherRanks) {
  const auto& [name, ranks] = GetParam();
  Ranks first(name, ranks);
  ASSERT_TRUE(first.model);
  const RingWindow window{4, 24, Eviction::kToken};
  const std::vector<TokenId> ids = ScatteredIds(50, first.model->spec().vocab), more = ScatteredIds(6, 90, 2);
  OwnCache cache(*first.model, window, 10);
  RunAll(*first.model, cache.get(), ids, 10);
  Snapshot saved = Snapshot::Capture(*cache.get(), first.model->memory(), {first.model->fingerprint()}, ids, 0);
  const std::vector<float> want = RunAll(*first.model, cache.get(), more, 10);
  const int most = name == "gpt2" || name.starts_with("gguf") ? 2 : 4;
  for (int others = 1; others <= most; ++others) {
    Ranks second(name, others);
    ASSERT_TRUE(second.model);
    OwnCache restored(*second.model, window, 10);
    ASSERT_TRUE(saved.Restore(*restored.get(), second.model->memory(), {second.model->fingerprint()}).ok());
    EXPECT_LT(RelativeError(RunAll(*second.model, restored.get(), more, 10), want), 1e-5) << others << " ranks";
  }
}

TEST(ShardedModelTest, RanksInSeparateProcessesHaveTheSameLogits) {
  const auto cases = {std::tuple{"llama", 2, RankLayout{2, 1}}, {"llama", 3, RankLayout{3, 1}},
                      {"qwen3", 2, RankLayout{4, 1}},           {"gpt2", 2, RankLayout{2, 1}},
                      {"llama", 2, RankLayout{1, 2}},           {"qwen3", 2, RankLayout{2, 2}}};
  for (const auto& [name, count, layout] : cases) {
    Ranks threads(name, layout.tensor), others(name, count, layout);
    ASSERT_TRUE(threads.model && others.model);
    EXPECT_EQ(threads.model->fingerprint(), others.model->fingerprint());
    EXPECT_EQ(threads.model->weight_bytes(), others.model->weight_bytes());
    ASSERT_TRUE(others.model->Reserve(20).ok());
    const std::vector<TokenId> ids = ScatteredIds(60, threads.model->spec().vocab);
    for (const RingWindow window : {RingWindow{4, 24, Eviction::kToken}, RingWindow{0, 100, Eviction::kToken}}) {
      for (const int64_t chunk : {1, 13}) {
        OwnCache want(*threads.model, window, chunk), got(*others.model, window, chunk);
        EXPECT_EQ(RunAll(*threads.model, want.get(), ids, chunk), RunAll(*others.model, got.get(), ids, chunk))
            << name << ", " << count << " processes, " << layout.stages << " stages, chunks of " << chunk;
      }
    }
  }
}

TEST(ShardedModelTest, RanksInSeparateProcessesSaveAndRestore) {
  const RingWindow window{4, 24, Eviction::kToken};
  Ranks one("llama", 1), two("llama", 2, {2, 1}), three("llama", 3, {3, 1});
  const std::vector<TokenId> ids = ScatteredIds(50, one.model->spec().vocab), more = ScatteredIds(6, 90, 2);
  OwnCache cache(*two.model, window, 10), alone(*one.model, window, 10), shared(*three.model, window, 10);
  RunAll(*two.model, cache.get(), ids, 10);
  Snapshot saved = Snapshot::Capture(*cache.get(), two.model->memory(), {two.model->fingerprint()}, ids, 0);
  const std::vector<float> want = RunAll(*two.model, cache.get(), more, 10);
  ASSERT_TRUE(saved.Restore(*alone.get(), one.model->memory(), {one.model->fingerprint()}).ok());
  ASSERT_TRUE(saved.Restore(*shared.get(), three.model->memory(), {three.model->fingerprint()}).ok());
  EXPECT_LT(RelativeError(RunAll(*one.model, alone.get(), more, 10), want), 1e-5);
  EXPECT_LT(RelativeError(RunAll(*three.model, shared.get(), more, 10), want), 1e-5);
  // A copy on the devices, as when a conversation reuses another's prefix.
  OwnCache copy(*two.model, window, 10);
  two.model->memory().CopyOnDevice(copy->slab(), cache->slab(), static_cast<size_t>(cache->shape().slab_bytes()));
  ASSERT_TRUE(copy->ring().Restore(cache->ring().next(), cache->ring().resident(), {}).ok());
  EXPECT_EQ(RunAll(*two.model, copy.get(), more, 6), RunAll(*two.model, cache.get(), more, 6));
}

/// Load status of two processes with a rank each for these paths.
std::pair<Status, Status> LoadByTwo(const std::string& first, const std::string& second) {
  const auto processes = testing::ThreadProcesses::Make(2);
  const auto load = [&](size_t process, const std::string& path) {
    auto comms = processes[process]->MakeComms(0, {.tensor = 2}, std::chrono::minutes(2));
    const auto backend = std::move(MakeCpuBackend({.threads = 1}, std::move(comms.front())).value());
    Backend* const own = backend.get();
    if (process > 0) return Model::Follow(path, {&own, 1}, 1, LoadFormat::kAuto, *processes[process]);
    return Model::Load(path, {&own, 1}, 1, LoadFormat::kAuto, *processes[process]).status();
  };
  Status followed;
  std::thread follower([&] { followed = load(1, second); });
  Status loaded = load(0, first);
  follower.join();
  return {loaded, followed};
}

TEST(ShardedModelTest, RefusesProcessesWithDifferentModels) {
  const auto [loaded, followed] = LoadByTwo(GoldenFolder("llama"), GoldenFolder("llama_biases"));
  for (const Status& status : {loaded, followed}) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(),
              "process 1 has loaded a different model than the first process, or uses different settings");
  }
}

TEST(ShardedModelTest, LoadFailureInOneProcessFailsAll) {
  const auto [loaded, followed] = LoadByTwo(GoldenFolder("llama"), "/nowhere/model.gguf");
  EXPECT_EQ(loaded.code(), followed.code());
  EXPECT_EQ(loaded.message(), "process 1: " + followed.message());
}

TEST(ShardedModelTest, DoesNotSplitQuantisedBlocks) {
  const auto backends = testing::MakeTestRanks("cpu", {.tensor = 3});
  std::vector<Backend*> all;
  for (const auto& backend : backends) all.push_back(backend.get());
  const auto loaded = Model::Load(GoldenFolder("gguf_q8_0/model.gguf"), all);
  EXPECT_EQ(loaded.status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(loaded.status().message().ends_with(
      "tensor 'blk.0.attn_output.weight' is stored as Q8_0, in blocks of 32 values, and cannot be shared by 3 ranks"))
      << loaded.status().message();
}

ModelSpec SpecOf(int64_t heads, int64_t kv_heads, int64_t ffn, int64_t vocab) {
  ModelSpec spec;
  spec.layers = 1, spec.heads = heads, spec.kv_heads = kv_heads, spec.head_dim = 64, spec.ffn = ffn, spec.vocab = vocab;
  return spec;
}

TEST(ShardTest, EveryPartBelongsToARank) {
  for (const auto& spec : {SpecOf(9, 3, 1536, 49152), SpecOf(32, 8, 14336, 128256), SpecOf(64, 8, 28672, 151936)}) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      const auto shards = MakeShards(spec, {.tensor = ranks});
      ASSERT_TRUE(shards.ok()) << shards.status().ToString();
      std::vector<int> heads(static_cast<size_t>(spec.heads)), saved(static_cast<size_t>(spec.kv_heads));
      int64_t ffn = 0, vocab = 0;
      for (const Shard& shard : *shards) {
        const HeadShare own = shard.Heads(spec.heads, spec.kv_heads);
        const IndexRange columns = shard.Columns(spec.ffn);
        for (int64_t h = own.heads.begin; h < own.heads.end; ++h) {
          ++heads[static_cast<size_t>(h)];
          const int64_t kv_head = h / (spec.heads / spec.kv_heads);
          EXPECT_TRUE(kv_head >= own.kv_heads.begin && kv_head < own.kv_heads.end) << "its own keys";
        }
        EXPECT_EQ(own.heads.size() % own.kv_heads.size(), 0) << "as many queries for each key";
        for (int64_t g = own.kv_heads.begin; own.saves && g < own.kv_heads.end; ++g) {
          ++saved[static_cast<size_t>(g)];
        }
        EXPECT_EQ(std::exchange(ffn, columns.end), columns.begin);
        EXPECT_EQ(std::exchange(vocab, shard.vocab.end), shard.vocab.begin);
        EXPECT_GT(std::min({own.heads.size(), columns.size(), shard.vocab.size()}), 0);
      }
      EXPECT_EQ(std::ranges::count(heads, 1), spec.heads) << ranks << " ranks";
      EXPECT_EQ(std::ranges::count(saved, 1), spec.kv_heads) << ranks << " ranks";
      EXPECT_EQ(ffn, spec.ffn);
      EXPECT_EQ(vocab, spec.vocab);
    }
  }
}

TEST(ShardTest, RefusesMoreRanksThanQueryHeads) {
  const auto shards = MakeShards(SpecOf(4, 2, 64, 96), {.tensor = 5});
  EXPECT_EQ(shards.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(shards.status().message(), "4 heads of a layer cannot be shared by 5 ranks");
}

}  // namespace
}  // namespace ringside
