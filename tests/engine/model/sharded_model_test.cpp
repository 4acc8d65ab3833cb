// A network that ranks share: the same logits as one rank's, whatever the family, the number of ranks and the window;
// a cache that some ranks have saved goes on with others; what cannot be shared is refused.
#include <gtest/gtest.h>

#include "cache/snapshot.h"
#include "engine/model/shard.h"
#include "tests/engine/model/model_run.h"
#include "tests/kernels/devices.h"

namespace ringside {
namespace {

/// A model, alone or shared.
struct Ranks {
  explicit Ranks(const std::string& name, int ranks) {
    backends = testing::MakeTestRanks("cpu", {.tensor = ranks});
    std::vector<Backend*> all;
    for (const auto& backend : backends) all.push_back(backend.get());
    auto loaded = Model::Load(GoldenFolder(name), all);
    EXPECT_TRUE(loaded.ok()) << loaded.status().ToString();
    if (loaded.ok()) model = std::move(*loaded);
  }
  std::vector<std::unique_ptr<Backend>> backends;
  std::unique_ptr<Model> model;
};

using Case = std::tuple<std::string, int>;  // a golden model, ranks
class ShardedModel : public ::testing::TestWithParam<Case> {};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const char* name : {"llama", "llama_biases", "qwen2", "qwen3", "mistral"}) {
    for (const int ranks : {2, 3, 4}) cases.emplace_back(name, ranks);
  }
  for (const char* name : {"gpt2", "gguf_q8_0/model.gguf"}) cases.emplace_back(name, 2);
  return cases;
}
INSTANTIATE_TEST_SUITE_P(All, ShardedModel, ::testing::ValuesIn(Cases()), [](const auto& info) {
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

// By their best alone, or by all logits where a choice asks for more; the others choose as one rank does, too.
TEST_P(ShardedModel, ChoosesTheTokensOfOneRank) {
  const auto& [name, ranks] = GetParam();
  Ranks one(name, 1), several(name, ranks);
  ASSERT_TRUE(one.model && several.model);
  const RingWindow window{4, 24, Eviction::kToken};
  const std::vector<TokenId> ids = ScatteredIds(30, one.model->spec().vocab);
  const std::vector<int32_t> banned{ids.front()};
  const TokenChoice choices[] = {{.temperature = 0}, {.temperature = 0, .logprobs = 1}, {.banned = banned, .top_k = 1}};
  for (const TokenChoice& choice : choices) {
    std::vector<ChosenToken> chosen[2];
    for (Model* model : {one.model.get(), several.model.get()}) {
      OwnCache cache(*model, window, 1);
      for (size_t i = 0; i < ids.size(); ++i) {
        const StepPart part{cache.get(), std::span(ids).subspan(i, 1), StepPart::Logits::kLast};
        model->Begin({&part, 1}, {&choice, 1});
        model->Finish({&chosen[model == one.model.get() ? 0 : 1].emplace_back(), 1});
      }
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(chosen[1][i].outcome, ChosenToken::Outcome::kChosen);
      EXPECT_EQ(chosen[1][i].id, chosen[0][i].id) << i;
      EXPECT_EQ(chosen[1][i].tops, chosen[0][i].tops);
    }
  }
}

TEST_P(ShardedModel, GoesOnWithACacheThatOthersSaved) {
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

TEST(ShardedModelTest, BlocksOfQuantisedWeightsAreNotCut) {
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

TEST(ShardTest, EveryPartIsSomebodys) {
  for (const auto& spec : {SpecOf(9, 3, 1536, 49152), SpecOf(32, 8, 14336, 128256), SpecOf(64, 8, 28672, 151936)}) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      const auto shards = MakeShards(spec, {.tensor = ranks});
      ASSERT_TRUE(shards.ok()) << shards.status().ToString();
      std::vector<int> heads(static_cast<size_t>(spec.heads)), saved(static_cast<size_t>(spec.kv_heads));
      int64_t ffn = 0, vocab = 0;
      for (const Shard& shard : *shards) {
        for (int64_t h = shard.heads.begin; h < shard.heads.end; ++h) {
          ++heads[static_cast<size_t>(h)];
          const int64_t kv_head = h / (spec.heads / spec.kv_heads);
          EXPECT_TRUE(kv_head >= shard.kv_heads.begin && kv_head < shard.kv_heads.end) << "its own keys";
        }
        EXPECT_EQ(shard.heads.size() % shard.kv_heads.size(), 0) << "as many queries for each key";
        for (int64_t g = shard.kv_heads.begin; shard.saves && g < shard.kv_heads.end; ++g) {
          ++saved[static_cast<size_t>(g)];
        }
        EXPECT_EQ(std::exchange(ffn, shard.ffn.end), shard.ffn.begin);
        EXPECT_EQ(std::exchange(vocab, shard.vocab.end), shard.vocab.begin);
        EXPECT_GT(std::min({shard.heads.size(), shard.ffn.size(), shard.vocab.size()}), 0);
      }
      EXPECT_EQ(std::ranges::count(heads, 1), spec.heads) << ranks << " ranks";
      EXPECT_EQ(std::ranges::count(saved, 1), spec.kv_heads) << ranks << " ranks";
      EXPECT_EQ(ffn, spec.ffn);
      EXPECT_EQ(vocab, spec.vocab);
    }
  }
}

TEST(ShardTest, MoreRanksThanQueriesAreRefused) {
  const auto shards = MakeShards(SpecOf(4, 2, 64, 96), {.tensor = 5});
  EXPECT_EQ(shards.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(shards.status().message(), "4 heads of a layer cannot be shared by 5 ranks");
}

}  // namespace
}  // namespace ringside
