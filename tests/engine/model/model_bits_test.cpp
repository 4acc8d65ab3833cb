// One arithmetic: a token's logits have the same bits for every chunking, turn, batch and number of threads.
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "tests/engine/model/model_run.h"

namespace ringside {
namespace {

struct BitsCase {
  const char* model;  // under tests/golden; "" = the real model
  int64_t pinned, memory_len;
  size_t length;  // ids of the history; more than pinned + memory_len wraps the window
  DType cache;
};

std::string BitsName(const ::testing::TestParamInfo<BitsCase>& info) {
  std::string name = *info.param.model == '\0' ? "real" : info.param.model;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  const bool wraps = info.param.length > static_cast<size_t>(info.param.pinned + info.param.memory_len);
  return name + (wraps ? "_wrapped_" : "_whole_") + std::string(Traits(info.param.cache).name);
}

class ModelBits : public ::testing::TestWithParam<BitsCase> {
 protected:
  void SetUp() override {
    const char* real = std::getenv("RINGSIDE_TEST_MODEL");
    if (*GetParam().model == '\0' && real == nullptr) GTEST_SKIP() << "RINGSIDE_TEST_MODEL is not set";
    path_ = *GetParam().model == '\0' ? real : GoldenFolder(GetParam().model);
    Load(1);
    ids_ = ScatteredIds(GetParam().length, model_->spec().vocab);
    tail_ = ScatteredIds(6, model_->spec().vocab, 2);
  }
  void Load(int threads) {
    model_.reset();
    backend_ = MakeTestBackend(threads);
    auto model = Model::Load(path_, *backend_);
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    model_ = std::move(*model);
  }
  OwnCache NewCache(int64_t chunk) {
    OwnCache cache(*model_, {GetParam().pinned, GetParam().memory_len, Eviction::kTurn}, chunk, GetParam().cache);
    for (int64_t at = 0; at < 10'000; at += 37) cache->ring().AddMessageStart(at);
    return cache;
  }
  // The history in chunks without logits, then the tail token by token with logits.
  std::vector<float> Run(int64_t chunk) {
    OwnCache cache = NewCache(chunk);
    Feed(cache.get(), ids_, chunk);
    return RunAll(*model_, cache.get(), tail_, 1);
  }
  void Feed(KvCache* cache, std::span<const TokenId> ids, int64_t chunk) {
    for (size_t at = 0; at < ids.size(); at += static_cast<size_t>(chunk)) {
      const size_t count = std::min(static_cast<size_t>(chunk), ids.size() - at);
      const StepPart part{cache, ids.subspan(at, count), StepPart::Logits::kNone};
      model_->Forward({&part, 1}, {});
    }
  }

  std::string path_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Model> model_;
  std::vector<TokenId> ids_, tail_;
};

TEST_P(ModelBits, AreIndependentOfTheChunkSize) {
  const std::vector<float> want = Run(1);
  for (const int64_t chunk : {7, 64, 512}) EXPECT_TRUE(Run(chunk) == want) << "chunk " << chunk;
}

TEST_P(ModelBits, AreIndependentOfTheThreadCount) {
  const std::vector<float> want = Run(64);
  for (const int threads : {2, 3}) {
    Load(threads);
    EXPECT_TRUE(Run(64) == want) << threads << " threads";
    EXPECT_TRUE(Run(5) == want) << threads << " threads, chunk 5";
  }
}

TEST_P(ModelBits, TwoTurnsEqualOneShot) {
  OwnCache turns = NewCache(64);
  Feed(turns.get(), ids_, 64);
  // An answer, token by token, each sampled from the previous logits.
  const auto vocab = static_cast<size_t>(model_->spec().vocab);
  std::vector<TokenId> all = ids_;
  TokenId next = tail_[0];
  for (int i = 0; i < 10; ++i) {
    all.push_back(next);
    const std::vector<float> logits = RunAll(*model_, turns.get(), std::span(&next, 1), 1);
    next = static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
  all.insert(all.end(), tail_.begin(), tail_.end());
  const std::vector<float> two_turns = RunAll(*model_, turns.get(), tail_, 64);
  OwnCache once = NewCache(64);
  Feed(once.get(), std::span(all).first(all.size() - tail_.size()), 64);
  const std::vector<float> one_shot = RunAll(*model_, once.get(), tail_, 64);
  ASSERT_EQ(two_turns.size(), tail_.size() * vocab);
  EXPECT_TRUE(two_turns == one_shot);
}

TEST_P(ModelBits, AreIndependentOfTheBatch) {
  const std::vector<float> alone = Run(64);
  constexpr size_t kOthers = 31;
  std::vector<OwnCache> caches;
  for (size_t i = 0; i <= kOthers; ++i) caches.push_back(NewCache(64));
  Feed(caches[0].get(), ids_, 64);
  // The others are at different positions; every third one prefills a chunk, the rest decode.
  std::vector<std::vector<TokenId>> others(kOthers);
  const auto vocab = static_cast<size_t>(model_->spec().vocab);
  std::vector<float> together;
  for (size_t t = 0; t < tail_.size(); ++t) {
    std::vector<StepPart> parts;
    for (size_t i = 0; i < kOthers; ++i) {
      others[i] =
          ScatteredIds(i % 3 == 0 ? 1 + (7 * i + t) % 10 : 1, model_->spec().vocab, static_cast<uint32_t>(i * 100 + t));
      parts.push_back({caches[i + 1].get(), others[i], i % 2 == 0 ? StepPart::Logits::kLast : StepPart::Logits::kNone});
    }
    const auto at = static_cast<std::ptrdiff_t>(5 * t);
    parts.insert(parts.begin() + at, {caches[0].get(), std::span(&tail_[t], 1), StepPart::Logits::kLast});
    size_t rows = 0, own_row = 0;
    for (size_t p = 0; p < parts.size(); ++p) {
      if (static_cast<std::ptrdiff_t>(p) == at) own_row = rows;
      rows += parts[p].logits == StepPart::Logits::kLast ? 1 : 0;
    }
    std::vector<float> logits(rows * vocab);
    model_->Forward(parts, logits);
    const auto own = logits.begin() + static_cast<std::ptrdiff_t>(own_row * vocab);
    together.insert(together.end(), own, own + static_cast<std::ptrdiff_t>(vocab));
  }
  EXPECT_TRUE(together == alone);
}

constexpr DType kF16 = DType::kF16, kF32 = DType::kF32, kBF16 = DType::kBF16;
INSTANTIATE_TEST_SUITE_P(Tiny, ModelBits,
                         ::testing::Values(BitsCase{"llama", 4, 600, 300, kF32}, BitsCase{"llama", 4, 96, 300, kF16},
                                           BitsCase{"qwen3", 1, 96, 300, kBF16},
                                           BitsCase{"qwen3", 4, 96, 300, DType::kF8E4M3},
                                           BitsCase{"gguf_q4_1/model.gguf", 4, 600, 300, kF16},
                                           BitsCase{"gguf_q4_1/model.gguf", 20, 96, 600, kF16},
                                           BitsCase{"gguf_q8_0/model.gguf", 4, 96, 300, kF16},
                                           BitsCase{"gguf_k_quants/model.gguf", 0, 96, 300, kF16},
                                           BitsCase{"gguf_low_bits/model.gguf", 0, 96, 300, kF16},
                                           BitsCase{"gguf_codebooks/model.gguf", 0, 96, 300, kF16},
                                           BitsCase{"gpt2", 0, 64, 40, kF32}),
                         BitsName);
INSTANTIATE_TEST_SUITE_P(RealModel, ModelBits,
                         ::testing::Values(BitsCase{"", 4, 600, 200, kF16}, BitsCase{"", 21, 96, 200, kF16}), BitsName);

}  // namespace
}  // namespace ringside
