#include "base/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/base/gate.h"

namespace ringside {
namespace {

TEST(WorkerPoolTest, CallsOfAClientStartInOrder) {
  WorkerPool pool({.threads = 1});
  std::vector<int> order;
  std::promise<void> done;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(pool.Submit("a", 0, [&order, i] { order.push_back(i); }).ok());
  ASSERT_TRUE(pool.Submit("a", 0, [&] { done.set_value(); }).ok());
  done.get_future().wait();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(WorkerPoolTest, CountsQueuedAndRefusedCalls) {
  WorkerPool pool({.threads = 1, .queue_calls = 4, .queue_bytes = 1000});
  Gate gate;
  ASSERT_TRUE(pool.Submit("a", 10, gate.Call()).ok());
  gate.WaitEntered(1);
  EXPECT_EQ(pool.stats().calls, 0U);
  ASSERT_TRUE(pool.Submit("a", 20, [] {}).ok());
  ASSERT_TRUE(pool.Submit("a", 30, [] {}).ok());
  EXPECT_FALSE(pool.Submit("a", 40, [] {}).ok());  // its share is half of the queue
  ASSERT_TRUE(pool.Submit("b", 50, [] {}).ok());
  EXPECT_EQ(pool.stats().calls, 3U);
  EXPECT_EQ(pool.stats().bytes, 100U);
  EXPECT_EQ(pool.stats().refused, 1U);
  gate.Open();
  while (pool.stats().calls > 0) std::this_thread::yield();
  EXPECT_EQ(pool.stats().bytes, 0U);
}

TEST(WorkerPoolTest, OneClientLeavesAWorkerForOthers) {
  WorkerPool pool({.threads = 3});
  Gate gate;
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(pool.Submit("greedy", 0, gate.Call()).ok());
  gate.WaitEntered(2);
  std::promise<void> other;
  ASSERT_TRUE(pool.Submit("other", 0, [&] { other.set_value(); }).ok());
  other.get_future().wait();
  EXPECT_EQ(gate.entered(), 2);
  gate.Open();
  gate.WaitEntered(10);
}

TEST(WorkerPoolTest, LargeCallsLeaveAWorkerForSmallOnes) {
  WorkerPool pool({.threads = 3, .large_bytes = 100});
  Gate gate;
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(pool.Submit("large " + std::to_string(i), 101, gate.Call()).ok());
  gate.WaitEntered(2);
  for (int i = 0; i < 10; ++i) {
    std::promise<void> small;
    ASSERT_TRUE(pool.Submit("small", 100, [&] { small.set_value(); }).ok());
    small.get_future().wait();
  }
  EXPECT_EQ(gate.entered(), 2);
  gate.Open();
  gate.WaitEntered(10);
}

TEST(WorkerPoolTest, ServesClientsRoundRobin) {
  WorkerPool pool({.threads = 1});
  Gate gate;
  ASSERT_TRUE(pool.Submit("first", 0, gate.Call()).ok());
  gate.WaitEntered(1);
  std::string order;
  std::promise<void> done;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(pool.Submit("a", 0, [&] { order += 'a'; }).ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(pool.Submit("b", 0, [&] { order += 'b'; }).ok());
  ASSERT_TRUE(pool.Submit("a", 0, [&] { done.set_value(); }).ok());
  gate.Open();
  done.get_future().wait();
  EXPECT_EQ(order, "ababab");
}

TEST(WorkerPoolTest, CallOvertakesLargerQueuedCallsOfOthers) {
  WorkerPool pool({.threads = 1});
  Gate gate;
  ASSERT_TRUE(pool.Submit("first", 0, gate.Call()).ok());
  gate.WaitEntered(1);
  std::string order;
  std::promise<void> done;
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(pool.Submit("attacker " + std::to_string(i), 4 << 20, [&] { order += 'X'; }).ok());
  }
  ASSERT_TRUE(pool.Submit("honest", 100 << 10, [&] { order += 'h'; }).ok());
  ASSERT_TRUE(pool.Submit("last", 5 << 20, [&] { done.set_value(); }).ok());
  gate.Open();
  done.get_future().wait();
  EXPECT_EQ(order, "h" + std::string(20, 'X'));
}

TEST(WorkerPoolTest, LargeCallWaitsForAFairShareOnly) {
  WorkerPool pool({.threads = 1});
  Gate gate;
  ASSERT_TRUE(pool.Submit("first", 0, gate.Call()).ok());
  gate.WaitEntered(1);
  std::atomic<bool> begun{false};
  std::promise<int> small_calls;
  ASSERT_TRUE(pool.Submit("large", 1 << 20, [&] { begun = true; }).ok());
  // An endless stream of small calls, each from a different client.
  const std::function<void(int)> next = [&](int count) {
    if (begun || count == 10'000) return small_calls.set_value(count);
    EXPECT_TRUE(pool.Submit("small " + std::to_string(count), 60 << 10, [&next, count] { next(count + 1); }).ok());
  };
  ASSERT_TRUE(pool.Submit("small", 60 << 10, [&next] { next(0); }).ok());
  gate.Open();
  const int count = small_calls.get_future().get();
  EXPECT_GT(count, 10);
  EXPECT_LT(count, 20);
}

TEST(WorkerPoolTest, BoundsQueuedCallsInTotalAndPerClient) {
  WorkerPool pool({.threads = 1, .queue_calls = 4, .queue_bytes = 1'000});
  Gate gate;
  ASSERT_TRUE(pool.Submit("first", 0, gate.Call()).ok());
  gate.WaitEntered(1);
  EXPECT_TRUE(pool.Submit("a", 0, [] {}).ok());
  EXPECT_TRUE(pool.Submit("a", 0, [] {}).ok());
  EXPECT_EQ(pool.Submit("a", 0, [] {}).code(), StatusCode::kUnavailable);  // half of the queue
  EXPECT_TRUE(pool.Submit("b", 600, [] {}).ok());                          // exceeds its share, but is its only one
  EXPECT_EQ(pool.Submit("b", 1, [] {}).code(), StatusCode::kUnavailable);
  EXPECT_EQ(pool.Submit("c", 401, [] {}).code(), StatusCode::kUnavailable);
  EXPECT_TRUE(pool.Submit("c", 400, [] {}).ok());
  EXPECT_EQ(pool.Submit("d", 0, [] {}).code(), StatusCode::kUnavailable);
  gate.Open();
  // Room is freed as work completes.
  while (!pool.Submit("d", 1'000, [] {}).ok()) std::this_thread::yield();
}

/// A call that waits for the disk until the gate opens; counts a refusal in `refused`.
std::function<void()> WaitForDisk(Gate& gate, std::atomic<int>& refused) {
  return [pass = gate.Call(), &refused] {
    const Result<DiskWait> wait = DiskWait::Begin();
    wait.ok() ? pass() : void(++refused);
  };
}

TEST(WorkerPoolTest, DiskWaitsReleaseTheirPlaces) {
  WorkerPool pool({.threads = 2});
  Gate disk;
  std::atomic<int> refused{0};
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(pool.Submit("writer", 0, WaitForDisk(disk, refused)).ok());
  disk.WaitEntered(20);
  EXPECT_EQ(pool.stats().disk_waits, 20U);
  for (const char* client : {"writer", "reader"}) {
    std::promise<void> done;
    ASSERT_TRUE(pool.Submit(client, 0, [&] { done.set_value(); }).ok());
    done.get_future().wait();
  }
  EXPECT_EQ(pool.stats().stalled_ms, 0);
  disk.Open();
  while (pool.stats().disk_waits > 0) std::this_thread::yield();
  EXPECT_EQ(refused, 0);
}

TEST(WorkerPoolTest, BoundsDiskWaitsInTotalAndPerClient) {
  WorkerPool pool({.threads = 1, .disk_waits = 4, .disk_patience = std::chrono::milliseconds(0)});
  Gate disk;
  std::atomic<int> refused{0};
  const auto submit = [&](const char* client) { ASSERT_TRUE(pool.Submit(client, 0, WaitForDisk(disk, refused)).ok()); };
  submit("a");
  submit("a");
  disk.WaitEntered(2);
  submit("a");
  while (refused < 1) std::this_thread::yield();
  submit("b");
  submit("b");
  disk.WaitEntered(4);
  submit("c");
  while (refused < 2) std::this_thread::yield();
  EXPECT_EQ(pool.stats().refused, 2U);
  disk.Open();
  while (pool.stats().disk_waits > 0) std::this_thread::yield();
  submit("c");
  disk.WaitEntered(5);
}

TEST(WorkerPoolTest, DiskWaitRegainsAPlace) {
  WorkerPool pool({.threads = 1, .disk_waits = 2, .disk_patience = std::chrono::hours(1)});
  Gate first, second;
  std::atomic<int> refused{0};
  ASSERT_TRUE(pool.Submit("a", 0, WaitForDisk(first, refused)).ok());
  ASSERT_TRUE(pool.Submit("b", 0, WaitForDisk(first, refused)).ok());
  first.WaitEntered(2);
  ASSERT_TRUE(pool.Submit("c", 0, WaitForDisk(second, refused)).ok());
  first.Open();
  second.WaitEntered(1);
  EXPECT_EQ(refused, 0);
  second.Open();
}

TEST(WorkerPoolTest, NestedAndOutsideWaitsDoNothing) {
  WorkerPool pool({.threads = 1, .disk_waits = 2});
  std::promise<size_t> inner;
  ASSERT_TRUE(pool.Submit("a", 0,
                          [&] {
                            const auto outer_wait = DiskWait::Begin();
                            { const auto inner_wait = DiskWait::Begin(); }
                            inner.set_value(pool.stats().disk_waits);
                          })
                  .ok());
  EXPECT_EQ(inner.get_future().get(), 1U);
  while (pool.stats().disk_waits > 0) std::this_thread::yield();
  EXPECT_TRUE(DiskWait::Begin().ok());
}

TEST(WorkerPoolTest, DetectsStuckWorkers) {
  WorkerPool pool({.threads = 2});
  Gate gate;
  ASSERT_TRUE(pool.Submit("a", 0, gate.Call()).ok());
  gate.WaitEntered(1);
  while (pool.stats().longest_call_ms == 0) std::this_thread::yield();
  EXPECT_EQ(pool.stats().stalled_ms, 0);  // one worker is free
  ASSERT_TRUE(pool.Submit("b", 0, gate.Call()).ok());
  while (pool.stats().stalled_ms == 0) std::this_thread::yield();
  gate.Open();
  while (pool.stats().longest_call_ms > 0 || pool.stats().stalled_ms > 0) std::this_thread::yield();
}

TEST(WorkerPoolTest, ExceptionFailsOneCall) {
  WorkerPool pool({.threads = 1});
  std::promise<void> done;
  ASSERT_TRUE(pool.Submit("a", 0, [] { throw std::runtime_error("it failed"); }).ok());
  ASSERT_TRUE(pool.Submit("a", 0, [&] { done.set_value(); }).ok());
  done.get_future().wait();
}

TEST(WorkerPoolTest, StopEndsRunningAndDropsQueuedCalls) {
  WorkerPool pool({.threads = 1});
  Gate gate;
  const auto held = std::make_shared<int>(0);
  ASSERT_TRUE(pool.Submit("a", 0, gate.Call()).ok());
  gate.WaitEntered(1);
  std::atomic<bool> ran{false};
  ASSERT_TRUE(pool.Submit("a", 0, [held, &ran] { ran = true; }).ok());
  std::thread stopper([&] { pool.Stop(); });
  // Repeats until Stop has started: before that only a full queue refuses.
  while (pool.Submit("b", 0, [] {}).message() != "The server is stopping.") std::this_thread::yield();
  gate.Open();
  stopper.join();
  EXPECT_FALSE(ran);
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace ringside
