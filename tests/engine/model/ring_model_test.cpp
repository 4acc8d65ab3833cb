// The ring in a network: against the published formulation, and bit for bit against itself for every chunking.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "tests/engine/model/model_run.h"
#include "tests/engine/streaming_reference.h"

namespace ringside {
namespace {

constexpr int64_t kMemory = 32;

std::unique_ptr<Model> LoadGolden(const std::string& name, Backend& backend) {
  auto model = Model::Load(GoldenFolder(name), backend);
  CHECK(model.ok());
  return std::move(*model);
}

// Messages of 3 to 40 tokens.
std::set<int64_t> MessageStarts(int64_t length) {
  std::set<int64_t> starts;
  for (int64_t at = 0, step = 3; at < length; at += step, step = (step * 5 + 7) % 38 + 3) starts.insert(at);
  return starts;
}

void Declare(const std::set<int64_t>& starts, KvCache* cache) {
  for (const int64_t start : starts) cache->ring().AddMessageStart(start);
}

struct Case {
  int64_t pinned;
  Eviction eviction;
};

class RingModel : public ::testing::TestWithParam<Case> {
 protected:
  RingWindow Window() const { return {GetParam().pinned, kMemory, GetParam().eviction}; }
};

INSTANTIATE_TEST_SUITE_P(, RingModel,
                         ::testing::Values(Case{0, Eviction::kToken}, Case{1, Eviction::kToken},
                                           Case{4, Eviction::kToken}, Case{32, Eviction::kToken},
                                           Case{0, Eviction::kTurn}, Case{1, Eviction::kTurn}, Case{4, Eviction::kTurn},
                                           Case{32, Eviction::kTurn}),
                         [](const auto& info) {
                           return "pinned" + std::to_string(info.param.pinned) +
                                  (info.param.eviction == Eviction::kTurn ? "_turn" : "_token");
                         });

TEST_P(RingModel, EqualsStreamingAttentionAtEveryPosition) {
  const auto backend = MakeTestBackend();
  const auto model = LoadGolden("llama", *backend);
  const int64_t rows = OwnCache(*model, Window(), 64)->shape().ring_rows();
  const int64_t length = Window().pinned + rows * 5 / 2;  // the ring has wrapped 2.5 times
  const auto ids = ScatteredIds(static_cast<size_t>(length), model->spec().vocab);
  const auto starts = MessageStarts(length);
  StreamingReference reference(GoldenFolder("llama"), model->spec(), Window(), starts);
  const std::vector<double> want = reference.AppendAll(ids);
  for (const int64_t chunk : {1, 7, 64}) {
    OwnCache cache(*model, Window(), chunk);
    Declare(starts, cache.get());
    EXPECT_LT(RelativeError(RunAll(*model, cache.get(), ids, chunk), want), 1e-4) << "chunk " << chunk;
  }
}

TEST_P(RingModel, DetectsAMissingSecondQuery) {
  const auto backend = MakeTestBackend();
  const auto model = LoadGolden("llama", *backend);
  const int64_t length = Window().pinned + 3 * kMemory;
  const auto ids = ScatteredIds(static_cast<size_t>(length), model->spec().vocab);
  const auto starts = MessageStarts(length);
  StreamingReference absolute(GoldenFolder("llama"), model->spec(), Window(), starts, true);
  OwnCache cache(*model, Window(), 16);
  Declare(starts, cache.get());
  const double error = RelativeError(RunAll(*model, cache.get(), ids, 16), absolute.AppendAll(ids));
  if (Window().pinned == 0) {
    EXPECT_LT(error, 1e-4) << "no pinned key, no second query";
  } else {
    EXPECT_GT(error, 0.02);
  }
}

TEST_P(RingModel, DetectsALostKey) {
  const auto backend = MakeTestBackend();
  const auto model = LoadGolden("llama", *backend);
  const auto ids = ScatteredIds(static_cast<size_t>(Window().pinned + 3 * kMemory), model->spec().vocab);
  RingWindow shorter = Window();
  shorter.memory_len -= 1;
  OwnCache cache(*model, Window(), 16), less(*model, shorter, 16);
  const auto want = RunAll(*model, cache.get(), ids, 16);
  EXPECT_GT(RelativeError(RunAll(*model, less.get(), ids, 16), want), 0.01);
}

// Random turns, rollbacks and extensions: the final state equals one in which only the remaining tokens ever existed.
TEST_P(RingModel, RollBacksLeaveNoTrace) {
  const auto backend = MakeTestBackend();
  const auto model = LoadGolden("llama", *backend);
  std::mt19937 random(7);
  const auto upto = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint32_t>(n)); };
  int taken = 0;
  for (int history = 0; history < 12; ++history) {
    OwnCache cache(*model, Window(), 16);
    std::vector<TokenId> ids;
    std::set<int64_t> starts;
    for (int step = 0; step < 25; ++step) {
      const auto next = static_cast<int64_t>(ids.size());
      if (step % 4 == 3) {
        const int64_t to = next - upto(std::min<int64_t>(next, 40));
        if (!cache->ring().CanRollBack(to)) continue;
        cache->ring().RollBack(to);
        ids.resize(static_cast<size_t>(to));
        starts.erase(starts.lower_bound(to), starts.end());
        ++taken;
        continue;
      }
      cache->ring().AddMessageStart(next);
      starts.insert(next);
      const auto more = ScatteredIds(static_cast<size_t>(1 + upto(16)), model->spec().vocab, random());
      RunAll(*model, cache.get(), more, 16);
      ids.insert(ids.end(), more.begin(), more.end());
    }
    OwnCache fresh(*model, Window(), 16);
    Declare(starts, fresh.get());
    RunAll(*model, fresh.get(), ids, 16);
    const auto tail = ScatteredIds(16, model->spec().vocab, 99);
    ASSERT_EQ(RunAll(*model, cache.get(), tail, 16), RunAll(*model, fresh.get(), tail, 16)) << "history " << history;
  }
  EXPECT_GT(taken, 30);
}

// Each layer attends one window further back: replaying L (W - 1) tokens restores a lost cache exactly.
TEST_P(RingModel, ReplayOfEveryLayersWindowIsExact) {
  const auto backend = MakeTestBackend();
  for (const char* name : {"llama", "gguf_q4_1/model.gguf"}) {
    const auto model = LoadGolden(name, *backend);
    const int64_t pinned = Window().pinned, length = pinned + 200;
    const auto ids = ScatteredIds(static_cast<size_t>(length), model->spec().vocab);
    const auto starts = MessageStarts(length + 20);
    const auto tail = ScatteredIds(20, model->spec().vocab, 5);
    OwnCache kept(*model, Window(), 16);
    Declare(starts, kept.get());
    RunAll(*model, kept.get(), ids, 16);
    const auto want = RunAll(*model, kept.get(), tail, 1);

    const auto replayed = [&](int64_t tokens) {
      OwnCache cache(*model, Window(), 16);
      // Unwritten rows must not be read.
      const std::vector<uint8_t> poison(static_cast<size_t>(cache->shape().slab_bytes()), 0xff);
      backend->CopyToDevice(cache->slab(), poison.data(), poison.size());
      Declare(starts, cache.get());
      const std::span<const TokenId> all(ids);
      RunAll(*model, cache.get(), all.first(static_cast<size_t>(pinned)), 16);
      cache->ring().SkipTo(length - tokens);
      RunAll(*model, cache.get(), all.last(static_cast<size_t>(tokens)), 16);
      return RunAll(*model, cache.get(), tail, 1);
    };
    EXPECT_EQ(replayed(model->spec().layers * (kMemory - 1)), want) << name;
    const double error = RelativeError(replayed(kMemory - 1), want);
    EXPECT_GT(error, 0) << name << ": one window only is another answer";
    EXPECT_LT(error, 10) << name << ": but a number";
  }
}

}  // namespace
}  // namespace ringside
