// A rank in another process accepts only what a valid call can request: it stops with a reason if a call names memory
// that it does not own, arrives at a wrong time, or if the first process is gone.
#include "engine/model/ranks/rank_follower.h"

#include <gtest/gtest.h>

#include <thread>

#include "engine/families/model_spec.h"
#include "tests/engine/model/model_run.h"

namespace ringside {
namespace {

/// A follower rank on a separate thread, and the other end of its connection.
class RankFollowerTest : public ::testing::Test {
 protected:
  RankFollowerTest() : lines_(MakeThreadComms(2, std::chrono::minutes(2))), first_(std::move(lines_[0]), 1) {
    own_.layers = 1, own_.heads = 2, own_.kv_heads = 1, own_.head_dim = 8, own_.hidden = 16, own_.ffn = 16;
    own_.vocab = 32;
    thread_ = std::thread([this] {
      Shard whole{.vocab = {0, 32}};
      Decoder decoder(*backend_, own_, whole, {0, 32}, Weights());
      RankConnection line(std::move(lines_[1]), 0);
      how_ = RankFollower(*backend_, decoder, own_, line).Follow();
    });
  }
  ~RankFollowerTest() override {
    if (thread_.joinable()) thread_.join();
  }

  Result<uint64_t> Ask(const std::string& call) {
    first_.Send(call);
    auto answer = first_.Receive();
    return answer.ok() ? DecodeAnswer(*answer) : answer.status();
  }
  /// Its exit status after this call.
  Status EndOf(const std::string& call) {
    first_.Send(call);
    thread_.join();
    return how_;
  }

  std::unique_ptr<Backend> backend_ = MakeTestBackend();
  ModelSpec own_;
  std::vector<std::unique_ptr<Comm>> lines_;
  RankConnection first_;
  std::thread thread_;
  Status how_;
};

void* At(uint64_t address) { return reinterpret_cast<void*>(address); }

TEST_F(RankFollowerTest, ReservesAndReleasesItsOwnMemory) {
  const auto reserved = Ask(EncodeCall(RankCallKind::kReserveSlabs, 1 << 20));
  ASSERT_TRUE(reserved.ok());
  EXPECT_TRUE(Ask(EncodeCall(RankCallKind::kCommit, 1 << 20, At(*reserved))).ok());
  first_.Send(EncodeCall(RankCallKind::kFree, 1 << 20, At(*reserved)));
  const auto pages = Ask(EncodeCall(RankCallKind::kPageBytes, 1 << 20));
  EXPECT_EQ(pages.ok() ? *pages : 0, static_cast<uint64_t>(backend_->page_bytes(1 << 20)));
  EXPECT_TRUE(EndOf(EncodeCall(RankCallKind::kEnd)).ok());
}

TEST_F(RankFollowerTest, DoesNotTouchForeignMemory) {
  const auto reserved = Ask(EncodeCall(RankCallKind::kReserveSlabs, 1 << 20));
  ASSERT_TRUE(reserved.ok());
  EXPECT_EQ(EndOf(EncodeCall(RankCallKind::kCommit, 2, At(*reserved + (1 << 20) - 1))).code(), StatusCode::kCorruption);
}

TEST_F(RankFollowerTest, DoesNotSaveAMissingSlab) {
  const KvShape shape{1, 1, 8, DType::kF16, 1, 4};
  const SlabRun run{.offset = 0, .bytes = shape.tile_bytes()};
  EXPECT_EQ(EndOf(EncodeCopy(RankCallKind::kSave, shape, &shape, {&run, 1})).code(), StatusCode::kCorruption);
}

TEST_F(RankFollowerTest, RefusesAChoiceWithoutAStep) {
  const RowSamplingParams greedy{.temperature = 0};
  EXPECT_EQ(EndOf(EncodeChoices(RankCallKind::kChoose, {&greedy, 1})).code(), StatusCode::kCorruption);
}

TEST_F(RankFollowerTest, RefusesAFinishWithoutAStart) {
  EXPECT_EQ(EndOf(EncodeCall(RankCallKind::kFinish)).code(), StatusCode::kCorruption);
}

TEST_F(RankFollowerTest, EndsOnInvalidCall) { EXPECT_EQ(EndOf("what is this?").code(), StatusCode::kCorruption); }

// A step of a recurrent network reads an existing boundary and stores the last one it reaches, each in a slot of its
// own.
TEST(RankCallsTest, StepsHaveTheirRecurrentStates) {
  ModelSpec spec;
  spec.layers = 2, spec.heads = 2, spec.kv_heads = 1, spec.head_dim = 8, spec.vocab = 32;
  spec.recurrence = {
      .mixer = Mixer::kDeltaNet, .key_heads = 1, .value_heads = 2, .key_size = 8, .value_size = 16, .kernel = 4};
  spec.layer_traits.resize(2);
  spec.layer_traits[1].mixer = Mixer::kDeltaNet;
  KvShape shape{1, 1, 8, DType::kF16, 0, 8};
  shape.state = spec.state();
  shape.state.slots = 3;
  const auto decode = [&](int64_t position, int slot, std::vector<StateWrite> writes) {
    const std::vector<int64_t> first_live{position, position};
    StepPlan plan{.shape = shape, .ids = {1, 2}, .positions = {position, position + 1}, .first_live = first_live};
    plan.pinned_positions = plan.positions;
    plan.segments = {{.rows = 2,
                      .position = position,
                      .first_live = first_live.data(),
                      .slab = &plan,
                      .state_slot = slot,
                      .state_writes = writes}};
    RankCall call;
    const Status status = DecodeCall(EncodeRun(plan, shape, plan.segments), spec, &call);
    if (status.ok()) {
      EXPECT_EQ(call.plan.segments.front().state_slot, slot);
      EXPECT_EQ(call.plan.segments.front().state_writes.size(), writes.size());
      EXPECT_EQ(call.plan.shape, shape);
    }
    return status.code();
  };
  EXPECT_EQ(decode(10, -1, {}), StatusCode::kOk);
  EXPECT_EQ(decode(70, 2, {}), StatusCode::kOk);
  EXPECT_EQ(decode(127, 2, {{128, 0}}), StatusCode::kOk);
  EXPECT_EQ(decode(70, -1, {}), StatusCode::kCorruption) << "no state to continue from";
  EXPECT_EQ(decode(70, 3, {}), StatusCode::kCorruption) << "three slots";
  EXPECT_EQ(decode(127, 2, {}), StatusCode::kCorruption) << "the last boundary is not stored";
  EXPECT_EQ(decode(127, 2, {{128, 2}}), StatusCode::kCorruption) << "stored over the state it reads";
  EXPECT_EQ(decode(10, -1, {{64, 0}}), StatusCode::kCorruption) << "a boundary after the step";
}

TEST_F(RankFollowerTest, EndsWhenRankZeroIsGone) {
  { const RankConnection gone = std::move(first_); }
  thread_.join();
  EXPECT_EQ(how_.message(), "rank 0 has left its group");
}

}  // namespace
}  // namespace ringside
