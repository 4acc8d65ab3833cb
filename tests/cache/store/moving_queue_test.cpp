// The moving thread's queue: order, cancellation by owner, the wait for the next sweep, and the end.
#include "cache/store/moving_queue.h"

#include <gtest/gtest.h>

#include <string>

namespace ringside {
namespace {

MovingQueue::Move Placement(const std::string& owner, int* run = nullptr) {
  return {[run] {
            if (run != nullptr) ++*run;
          },
          owner, nullptr};
}

TEST(MovingQueueTest, ReturnsTheOldestFirst) {
  MovingQueue queue;
  queue.Push(Placement("a"));
  queue.Push(Placement("b"));
  EXPECT_EQ(queue.Pop(0)->owner, "a");
  EXPECT_EQ(queue.TryPop()->owner, "b");
  EXPECT_FALSE(queue.TryPop().has_value());
}

TEST(MovingQueueTest, CancelsTheOldestPlacementOfAnOwner) {
  MovingQueue queue;
  int first = 0, second = 0;
  queue.Push(Placement(""));
  queue.Push(Placement("a", &first));
  queue.Push(Placement("a", &second));
  const auto canceled = queue.Cancel("a");
  ASSERT_TRUE(canceled.has_value());
  canceled->work();
  EXPECT_EQ(first, 1);
  EXPECT_FALSE(queue.Cancel("b").has_value());
  EXPECT_FALSE(queue.Cancel("").has_value()) << "other work is never canceled";
  EXPECT_EQ(queue.TryPop()->owner, "");
  queue.TryPop()->work();
  EXPECT_EQ(second, 1);
}

TEST(MovingQueueTest, PopReturnsNoWorkAfterTheWait) {
  MovingQueue queue;
  const auto move = queue.Pop(1);
  ASSERT_TRUE(move.has_value());
  EXPECT_EQ(move->work, nullptr);
}

TEST(MovingQueueTest, AClosedQueueStillReturnsItsMoves) {
  MovingQueue queue;
  queue.Push(Placement("a"));
  queue.Close();
  EXPECT_EQ(queue.Pop(0)->owner, "a");
  EXPECT_FALSE(queue.Pop(0).has_value());
}

}  // namespace
}  // namespace ringside
