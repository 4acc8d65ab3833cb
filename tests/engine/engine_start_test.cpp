// Engine startup before the first turn, and the thread that runs the engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "engine/loop/engine_loop.h"
#include "tests/engine/engine_harness.h"
#include "tests/engine/hash_network.h"
#include "tests/engine/model/model_run.h"
#include "tests/kernels/forwarding_backend.h"

namespace ringside {
namespace {

// Records the row counts of its linear layers.
class RowsBackend final : public ForwardingBackend {
 public:
  explicit RowsBackend(bool runs_ahead) : ForwardingBackend(MakeTestBackend()), runs_ahead_(runs_ahead) {}
  bool runs_ahead() const override { return runs_ahead_; }
  void Linear(const LinearArgs& args) override {
    rows_.insert(args.x.rows);
    ForwardingBackend::Linear(args);
  }
  const std::set<int64_t>& rows() const { return rows_; }

 private:
  const bool runs_ahead_;
  std::set<int64_t> rows_;
};

// A device selects and loads its kernels when it first sees a size: that must not happen while a client waits.
TEST(EngineStart, WarmsUpEveryPromptSize) {
  for (const bool device : {true, false}) {
    RowsBackend backend(device);
    const auto model = Model::Load(GoldenFolder("llama"), backend);
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    const LetterTokenizer tokenizer(model.value()->spec().vocab);
    EngineOptions options;
    options.slots = 2, options.memory_len = 64, options.pinned_max = 4, options.prefill_chunk = 48;
    options.kv_dtype = DType::kF32;
    const auto engine = Engine::Start(**model, tokenizer, options);
    ASSERT_TRUE(engine.ok()) << engine.status().ToString();
    if (device) {
      EXPECT_THAT(backend.rows(), ::testing::ElementsAre(1, 2, 4, 8, 16, 32, 48));
    } else {
      EXPECT_THAT(backend.rows(), ::testing::IsEmpty());
    }
  }
}

TEST(GpuPrefillChunk, FollowsTheModelAndTheWindow) {
  const auto chunk = [](int64_t layers, int64_t hidden, int64_t ffn, int64_t memory_len) {
    const ModelSpec spec{
        .layers = layers, .hidden = hidden, .heads = hidden / 64, .kv_heads = 8, .head_dim = 64, .ffn = ffn};
    return GpuPrefillChunk(spec, memory_len);
  };
  EXPECT_EQ(chunk(16, 2048, 8192, 16384), 8192);   // 1B
  EXPECT_EQ(chunk(28, 3072, 8192, 16384), 4096);   // 3B
  EXPECT_EQ(chunk(32, 4096, 14336, 16384), 2048);  // 8B
  EXPECT_EQ(chunk(80, 8192, 28672, 16384), 2048);  // 70B
  EXPECT_EQ(chunk(16, 2048, 8192, 4095), 2048);
  EXPECT_EQ(chunk(16, 2048, 8192, 100), 2048);
}

// As in a simulation: only this thread, and only the clock's time.
TEST(EngineLoop, CallerMayRunTheLoop) {
  const ManualClock clock;
  const auto backend = MakeTestBackend();
  HashNetwork network(*backend);
  const LetterTokenizer tokenizer(HashNetwork::kVocab);
  const NetworkShape shape = network.shape();
  auto pool =
      KvPool::Make(*backend, MakeKvShape(shape.layers, shape.kv_heads, shape.head_dim, DType::kF32, 4, 32, 8), 1);
  ASSERT_TRUE(pool.ok());
  EngineLoop loop(network, tokenizer, {.memory_len = 32, .pinned_max = 4}, std::move(*pool), {}, clock,
                  EngineLoop::Driver::kCaller);
  EXPECT_EQ(loop.NextDueNs(), std::nullopt);
  const RingWindow window{0, 32, Eviction::kToken};
  SubmittedTurn first = GreedyTurn(1, 1, {1, 2, 3}, {0}, window, 2), second = GreedyTurn(2, 2, {4}, {0}, window, 5);
  ASSERT_TRUE(loop.Submit(first.request).ok());
  EXPECT_TRUE(first.sink->ids().empty()) << "before its first round";
  int rounds = 0;
  for (loop.RunRound(); loop.NextDueNs(); loop.RunRound()) ++rounds;
  EXPECT_EQ(rounds, 1);
  EXPECT_EQ(first.sink->ids()[0], HashNetwork::Expected({1, 2, 3}, {0}, window));
  EXPECT_EQ(first.sink->Wait().reason, FinishReason::kLength);
  {
    ASSERT_TRUE(loop.Submit(second.request).ok());
    loop.RunRound();
    EXPECT_EQ(loop.NextDueNs(), clock.MonotonicNs()) << "it has more to say";
  }
}

}  // namespace
}  // namespace ringside
