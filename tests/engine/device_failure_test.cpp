// Permanent device failures, and that all device allocations happen at startup.
#include <gtest/gtest.h>

#include "tests/engine/engine_harness.h"
#include "tests/engine/failing_backend.h"
#include "tests/engine/model/model_run.h"
#include "tests/engine/tiers/tiers_harness.h"

namespace ringside {
namespace {

constexpr RingWindow kRoomyWindow{4, 64, Eviction::kTurn};

class DeviceFailureTest : public ::testing::Test {
 protected:
  void Start(EngineOptions options, const EngineStorage& storage = {}) {
    options.memory_len = kRoomyWindow.memory_len;
    options.pinned_max = 8;
    options.kv_dtype = DType::kF32;
    auto model = Model::Load(GoldenFolder("llama"), backend_);
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    model_ = std::move(*model);
    tokenizer_ = std::make_unique<LetterTokenizer>(model_->spec().vocab);
    auto started = Engine::Start(*model_, *tokenizer_, options, storage);
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    engine_ = std::move(*started);
  }
  SubmittedTurn Turn(TimelineId timeline, int64_t max_tokens, size_t tokens = 20) {
    return GreedyTurn(++last_turn_, timeline, ScatteredIds(tokens, 96, static_cast<uint32_t>(timeline)), {},
                      kRoomyWindow, max_tokens);
  }

  FailingBackend backend_{MakeTestBackend()};
  std::unique_ptr<Model> model_;
  std::unique_ptr<LetterTokenizer> tokenizer_;
  std::unique_ptr<Engine> engine_;
  TurnId last_turn_ = 0;
};

TEST_F(DeviceFailureTest, EndsRunningQueuedAndNewTurns) {
  Start({.slots = 2});
  EXPECT_TRUE(engine_->healthy());
  std::vector<SubmittedTurn> turns;
  for (TimelineId i = 1; i <= 4; ++i) turns.push_back(Turn(i, -1));  // two are queued
  for (const SubmittedTurn& turn : turns) ASSERT_TRUE(engine_->Submit(turn.request).ok());
  turns[0].sink->WaitForTokens(5);
  turns[1].sink->WaitForTokens(5);
  backend_.FailAfter(3);
  for (const SubmittedTurn& turn : turns) {
    const TurnEnd end = turn.sink->Wait();
    EXPECT_FALSE(engine_->healthy()) << "whoever hears of it finds it so";
    EXPECT_EQ(end.reason, FinishReason::kError);
    EXPECT_EQ(end.error.code(), StatusCode::kUnavailable);
    EXPECT_NE(end.error.message().find("device has failed"), std::string::npos) << end.error.message();
  }
  // Delivered tokens stay delivered.
  EXPECT_GE(turns[0].sink->ids().size(), 5u);
  EXPECT_EQ(engine_->Submit(Turn(9, 1).request).code(), StatusCode::kUnavailable);
}

TEST_F(DeviceFailureTest, StoresNothingAfterAFailureAndKeepsEarlierData) {
  TierFolder folder(true);
  TieredStore& tiers = folder.Open(1 << 20, 1 << 20);
  Start({.slots = 2}, {.tiers = &tiers, .fetch_deadline_ms = 60'000});
  SubmittedTurn sound = Turn(1, 3), lost = Turn(2, 3);
  sound.request.owner = "sound";
  lost.request.owner = "lost";
  for (const SubmittedTurn* turn : {&sound, &lost}) {
    ASSERT_TRUE(engine_->Submit(turn->request).ok());
    EXPECT_EQ(turn->sink->Wait().reason, FinishReason::kLength);
  }
  engine_->Park(1);
  ASSERT_TRUE(WaitFor([&](auto done) { engine_->SaveAll(done); }).ok());
  engine_->Close(2);
  backend_.FailAfter(1);
  SubmittedTurn again = Turn(1, -1, 30);
  again.request.owner = "sound";
  ASSERT_TRUE(engine_->Submit(again.request).ok());
  EXPECT_EQ(again.sink->Wait().reason, FinishReason::kError);
  engine_->Park(1);
  engine_.reset();
  const auto place = tiers.Find("sound");
  ASSERT_TRUE(place.has_value());
}

// Every kind of step: prefills of all lengths, full batches, mixed ones, saves and restores.
TEST_F(DeviceFailureTest, AllocatesNothingWhileServing) {
  TierFolder folder(true);
  TieredStore& tiers = folder.Open(1 << 20, 1 << 20);
  Start({.slots = 6, .prefill_chunk = 32, .step_tokens = 48}, {.tiers = &tiers});
  const int64_t before = backend_.allocations();
  EXPECT_GT(before, 6);
  for (int round = 0; round < 3; ++round) {
    std::vector<SubmittedTurn> turns;
    for (TimelineId i = 1; i <= 12; ++i) {
      turns.push_back(Turn(i, 10, 5 + 9 * static_cast<size_t>(i)));
      turns.back().request.owner = "conv_" + std::to_string(i);
      ASSERT_TRUE(engine_->Submit(turns.back().request).ok());
    }
    for (const SubmittedTurn& turn : turns) EXPECT_EQ(turn.sink->Wait().reason, FinishReason::kLength);
  }
  EXPECT_EQ(backend_.allocations(), before);
}

// A device with a limited amount of memory.
class SmallDevice final : public FailingBackend {
 public:
  SmallDevice(std::unique_ptr<Backend> inner, size_t bytes) : FailingBackend(std::move(inner)), left_(bytes) {}
  std::optional<size_t> free_bytes() const override { return left_; }
  Result<Buffer> Allocate(size_t bytes) override {
    if (bytes > left_) return Overloaded("no memory for " + std::to_string(bytes) + " bytes");
    left_ -= bytes;
    return FailingBackend::Allocate(bytes);
  }
  Status Commit(void* data, size_t bytes) override {
    if (bytes > left_) return Overloaded("no memory for " + std::to_string(bytes) + " bytes");
    left_ -= bytes, committed_ += bytes;
    return FailingBackend::Commit(data, bytes);
  }
  void Decommit(void* data, size_t bytes) override {
    left_ += bytes, committed_ -= bytes;
    FailingBackend::Decommit(data, bytes);
  }
  int64_t free_for_caches() const { return static_cast<int64_t>(left_ + committed_); }

 private:
  size_t left_, committed_ = 0;
};

TEST(DeviceMemoryTest, CachesGetTheMemoryLeftByWeightsAndScratch) {
  LetterTokenizer tokenizer(96);
  EngineOptions options{.slots = 0, .memory_len = 64, .pinned_max = 8};
  const KvShape shape =
      MakeKvShape(2, 2, 16, options.kv_dtype, options.pinned_max, options.memory_len, options.prefill_chunk);
  for (const size_t megabytes : {2, 4, 8}) {
    SmallDevice device(MakeTestBackend(), megabytes << 20);
    auto model = Model::Load(GoldenFolder("llama"), device);
    ASSERT_TRUE(model.ok());
    auto engine = Engine::Start(**model, tokenizer, options);
    ASSERT_TRUE(engine.ok()) << engine.status().ToString();
    EXPECT_EQ((*engine)->slot_bytes(), shape.slab_bytes());
    EXPECT_GT((*engine)->options().slots, 0);
    EXPECT_EQ((*engine)->stats().slots, (*engine)->options().slots);
    EXPECT_EQ((*engine)->stats().kv_bytes, (*engine)->options().kv_bytes);
    EXPECT_GT((*engine)->options().kv_bytes, device.free_for_caches() - 4096) << "a page more";
    EXPECT_LE((*engine)->options().kv_bytes, device.free_for_caches());
  }
}

TEST(DeviceMemoryTest, ReportsWhatDoesNotFitInBytes) {
  LetterTokenizer tokenizer(96);
  SmallDevice device(MakeTestBackend(), size_t{2} << 20);
  auto model = Model::Load(GoldenFolder("llama"), device);
  ASSERT_TRUE(model.ok());
  EngineOptions options{.slots = 0, .memory_len = 1 << 16, .pinned_max = 8};
  auto none = Engine::Start(**model, tokenizer, options);
  EXPECT_EQ(none.status().code(), StatusCode::kOverloaded);
  EXPECT_NE(none.status().message().find("are free"), std::string::npos) << none.status().message();
  options.memory_len = 64;
  options.kv_bytes = 4 << 20;
  auto too_much = Engine::Start(**model, tokenizer, options);
  EXPECT_EQ(too_much.status().code(), StatusCode::kOverloaded);
  EXPECT_NE(too_much.status().message().find("4194304 bytes for caches"), std::string::npos)
      << too_much.status().message();
  // Slots alone take no memory.
  options.kv_bytes = 0;
  options.slots = 500;
  EXPECT_TRUE(Engine::Start(**model, tokenizer, options).ok());
}

}  // namespace
}  // namespace ringside
