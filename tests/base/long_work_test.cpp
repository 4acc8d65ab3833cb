// Long work: fairness between owners, refusals, and calls that run meanwhile.
#include "base/long_work.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/request_watch.h"
#include "base/worker_pool.h"
#include "tests/base/gate.h"

namespace ringside::testing {
namespace {

/// Calls of several owners on a lane, and the order in which they ran.
class LongWorkTest : public ::testing::Test {
 protected:
  ~LongWorkTest() override { Join(); }

  /// Returns once the call is queued or running.
  void Begin(const std::string& owner) {
    Begin(owner, [] {});
  }
  void Begin(const std::string& owner, const std::function<void()>& work) {
    const int begun = ++begun_;
    callers_.emplace_back([this, owner, work] {
      const Status status = lane_.Run(owner, [&] {
        {
          std::lock_guard lock(mutex_);
          order_ += owner;
        }
        work();
      });
      if (!status.ok()) ++refused_;
      ++ended_;
    });
    while (Known() < begun) std::this_thread::yield();
  }
  int Known() { return static_cast<int>(lane_.waiting()) + started() + refused_; }
  int started() {
    std::lock_guard lock(mutex_);
    return static_cast<int>(order_.size());
  }
  void Join() {
    for (std::thread& caller : callers_) caller.join();
    callers_.clear();
  }

  LongWorkLane lane_{{.threads = 1, .waiting_of_owner = 3, .waiting = 5}};
  std::mutex mutex_;
  std::string order_;  // owners have one-letter names
  std::atomic<int> refused_{0}, ended_{0};
  int begun_ = 0;
  std::vector<std::thread> callers_;
};

TEST_F(LongWorkTest, LeastServedOwnerGoesFirst) {
  Gate gate;
  Begin("a");
  while (ended_ < 1) std::this_thread::yield();
  Begin("b", gate.Call());
  gate.WaitEntered(1);
  for (int i = 0; i < 3; ++i) Begin("a");
  Begin("c");  // a new owner
  gate.Open();
  Join();
  EXPECT_EQ(order_.substr(0, 3), "abc");
  EXPECT_EQ(refused_, 0);
}

TEST_F(LongWorkTest, LimitsQueuedWorkPerOwner) {
  Gate gate;
  Begin("a", gate.Call());
  gate.WaitEntered(1);
  for (int i = 0; i < 3; ++i) Begin("a");
  const Status refused = lane_.Run("a", [] { FAIL() << "it ran"; });
  EXPECT_EQ(refused.code(), StatusCode::kOverloaded);
  EXPECT_EQ(refused.reason(), "rate_limit_exceeded");
  Begin("b");
  gate.Open();
  Join();
  EXPECT_EQ(refused_, 0);
}

TEST_F(LongWorkTest, FullQueueRefusesItsLargestOwner) {
  Gate gate;
  Begin("x", gate.Call());
  gate.WaitEntered(1);
  for (int i = 0; i < 3; ++i) Begin("a");
  for (int i = 0; i < 2; ++i) Begin("b");
  Begin("c");
  while (refused_ < 1) std::this_thread::yield();
  EXPECT_EQ(lane_.Run("a", [] {}).code(), StatusCode::kOverloaded);
  EXPECT_EQ(lane_.Run("b", [] {}).code(), StatusCode::kOverloaded);
  gate.Open();
  Join();
  EXPECT_EQ(std::ranges::count(order_, 'a'), 2);
  EXPECT_EQ(std::ranges::count(order_, 'b'), 2);
  EXPECT_EQ(std::ranges::count(order_, 'c'), 1);
  EXPECT_EQ(refused_, 1);
}

TEST_F(LongWorkTest, ExceptionReachesTheCaller) {
  EXPECT_THROW((void)lane_.Run("a", [] { throw std::runtime_error("it failed"); }), std::runtime_error);
  EXPECT_TRUE(lane_.Run("a", [] {}).ok());
}

TEST_F(LongWorkTest, DetectsThatTheClientHasLeft) {
  const RequestWatch watch([] { return true; });
  bool left = false;
  ASSERT_TRUE(lane_.Run("a", [&] { left = RequestWatch::ClientLeft(); }).ok());
  EXPECT_TRUE(left);
}

TEST_F(LongWorkTest, StopRefusesQueuedWork) {
  Gate gate;
  Begin("a", gate.Call());
  gate.WaitEntered(1);
  Begin("a");
  Begin("b");
  std::thread stopper([&] { lane_.Stop(); });
  while (refused_ < 2) std::this_thread::yield();
  gate.Open();
  stopper.join();
  EXPECT_EQ(order_, "a");
  EXPECT_EQ(lane_.Run("c", [] {}).code(), StatusCode::kUnavailable);
}

// ---- on the workers of a pool ------------------------------------------------------------------------------------

TEST(LongWorkOfAPoolTest, LongWorkOfManyOwnersBlocksNoOtherCall) {
  WorkerPool pool({.threads = 2});
  Gate gate;
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(pool.Submit("owner " + std::to_string(i), 0, [&] { EXPECT_TRUE(RunLongWork(gate.Call()).ok()); }).ok());
  }
  while (pool.stats().long_calls < 20) std::this_thread::yield();
  for (const char* client : {"owner 0", "other"}) {
    std::promise<void> done;
    ASSERT_TRUE(pool.Submit(client, 0, [&] { done.set_value(); }).ok());
    done.get_future().wait();
  }
  EXPECT_EQ(pool.stats().stalled_ms, 0);
  gate.WaitEntered(1);
  EXPECT_EQ(gate.entered(), 1) << "half of the workers' number runs at once";
  gate.Open();
  gate.WaitEntered(20);
  while (pool.stats().long_calls > 0) std::this_thread::yield();
}

TEST(LongWorkOfAPoolTest, RefusesCallsBeyondTheClientsShare) {
  WorkerPool pool({.threads = 2, .long_calls_of_client = 2});
  Gate gate;
  std::atomic<int> refused{0};
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(pool.Submit("a", 0, [&] { refused += RunLongWork(gate.Call()).ok() ? 0 : 1; }).ok());
    gate.WaitEntered(1);
  }
  while (refused < 2) std::this_thread::yield();
  EXPECT_EQ(pool.stats().refused, 2U);
  gate.Open();
  gate.WaitEntered(3);
}

TEST(LongWorkOfAPoolTest, StopEndsWaitingCalls) {
  WorkerPool pool({.threads = 1});
  Gate gate;
  std::atomic<int> refused{0};
  for (const char* client : {"a", "b", "c"}) {
    ASSERT_TRUE(pool.Submit(client, 0, [&] { refused += RunLongWork(gate.Call()).ok() ? 0 : 1; }).ok());
    gate.WaitEntered(1);
  }
  while (pool.stats().long_calls < 3) std::this_thread::yield();
  std::thread stopper([&] { pool.Stop(); });
  while (refused < 2) std::this_thread::yield();
  gate.Open();
  stopper.join();
  EXPECT_EQ(gate.entered(), 1);
}

TEST(LongWorkOfAPoolTest, RunsImmediatelyOutsideAPool) {
  bool ran = false;
  EXPECT_TRUE(RunLongWork([&] { ran = true; }).ok());
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace ringside::testing
