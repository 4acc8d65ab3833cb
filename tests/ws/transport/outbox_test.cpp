// The outbox alone: order, merging, wake-ups, limits, closing.
#include "ws/transport/outbox.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/limits.h"
#include "tests/ws/transport/outbox_piece.h"

namespace ringside {
namespace {

using testing::Bulk;
using testing::Piece;

constexpr size_t kSoft = limits::kOutboxSoftBytes;
constexpr size_t kHard = limits::kOutboxHardBytes;

class OutboxTest : public ::testing::Test {
 protected:
  std::atomic<int> wakes_{0};
  Outbox outbox_{[this] { ++wakes_; }};

  std::vector<std::string> TakeAll() {
    std::vector<std::string> all;
    while (auto message = outbox_.Take()) all.push_back(std::move(*message));
    return all;
  }
  /// An unmergeable entry that puts the outbox above its soft limit.
  void FillToSoftLimit() { outbox_.Push(std::string(kSoft + 1, 'f')); }
};

TEST_F(OutboxTest, DeliversMessagesInOrder) {
  outbox_.Push("one");
  outbox_.Push(Piece::Make("two", 5));
  outbox_.Push(Piece::Make("three", 5));
  EXPECT_EQ(outbox_.queued_bytes(), 3u + 5 + 7);
  EXPECT_EQ(TakeAll(), std::vector<std::string>({"one", "<two>", "<three>"}));
  EXPECT_EQ(outbox_.queued_bytes(), 0u);
  EXPECT_FALSE(outbox_.TakeClose().has_value());
}

TEST_F(OutboxTest, BurstIsNotSlownessButLaterMessagesAre) {
  outbox_.Push(std::make_unique<Bulk>(3 * kHard / 100'000 + 1, 100'000));
  EXPECT_GT(outbox_.queued_bytes(), 3 * kHard);
  EXPECT_FALSE(outbox_.TakeClose());
  // After half is read, the limit counts the rest, not the heap's earlier peak.
  while (outbox_.queued_bytes() > 2 * kHard) outbox_.Take();
  const size_t left = outbox_.queued_bytes();
  for (size_t bytes = 0; bytes + 100'000 < kHard; bytes += 100'000) outbox_.Push(std::string(100'000, 'n'));
  EXPECT_GT(outbox_.queued_bytes(), left + kHard - 200'000);
  outbox_.Push(std::string(200'000, 'n'));
  EXPECT_EQ(outbox_.queued_bytes(), 0u);
  ASSERT_TRUE(outbox_.TakeClose().has_value());
}

TEST_F(OutboxTest, MessagesOfABurstMayExceedTheLimitTogether) {
  outbox_.PushBurst({std::string(2 * kHard, 'a'), std::string(2 * kHard, 'b')});
  outbox_.PushBurst({});
  outbox_.Push("later");
  EXPECT_FALSE(outbox_.TakeClose());
  const std::vector<std::string> all = TakeAll();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1], std::string(2 * kHard, 'b'));
  EXPECT_EQ(outbox_.queued_bytes(), 0u);
}

TEST_F(OutboxTest, OutboxesOfAnOwnerShareOneLimit) {
  OutboxBudget budget(static_cast<int64_t>(4 * kHard));
  std::vector<std::unique_ptr<Outbox>> hers;
  for (int i = 0; i < 100; ++i) hers.push_back(std::make_unique<Outbox>([] {}, budget.Of("her")));
  Outbox his([] {}, budget.Of("him"));
  for (const auto& outbox : hers) outbox->Push(std::string(kSoft, 'a'));
  size_t held = 0, closed = 0;
  for (const auto& outbox : hers) {
    outbox->Push(std::string(kSoft, 'b'));
    closed += outbox->TakeClose() ? 1 : 0;
    held += outbox->queued_bytes();
  }
  EXPECT_GT(closed, 0U);
  EXPECT_LE(held, 2 * kHard + 2 * kSoft) << "half of the budget, and the push that found it full";
  his.Push(std::string(2 * kSoft, 'c'));
  his.Push(std::string(kSoft, 'd'));
  EXPECT_FALSE(his.TakeClose()) << "he has his own half";
  hers.clear();
  Outbox another([] {}, budget.Of("her"));
  another.Push(std::string(2 * kSoft, 'e'));
  EXPECT_FALSE(another.TakeClose()) << "what is gone is given back";
}

TEST_F(OutboxTest, BurstsWithoutReadingMakeASlowReader) {
  outbox_.Push(std::make_unique<Bulk>(kHard / 100'000 + 1, 100'000));
  EXPECT_GT(outbox_.queued_bytes(), kHard);
  outbox_.Push(std::make_unique<Bulk>(kHard / 100'000 + 1, 100'000));
  const auto close = outbox_.TakeClose();
  ASSERT_TRUE(close.has_value());
  EXPECT_EQ(close->code, 1013);
}

// The pusher holds a session's lock: it must not pay for formatting the text.
TEST_F(OutboxTest, SerialisesOnlyWhenTaken) {
  class Counting final : public OutboxEntry {
   public:
    explicit Counting(int& written) : written_(written) {}
    std::string Next() override { return std::to_string(++written_); }
    bool done() const override { return written_ == 3; }
    size_t bytes() const override { return 1; }

   private:
    int& written_;
  };
  int written = 0;
  outbox_.Push(std::make_unique<Counting>(written));
  EXPECT_EQ(written, 0);
  EXPECT_EQ(outbox_.Take(), "1");
  EXPECT_EQ(written, 1);
  outbox_.Push("behind");
  EXPECT_EQ(wakes_, 1);
  EXPECT_EQ(TakeAll(), std::vector<std::string>({"2", "3", "behind"}));
}

TEST_F(OutboxTest, DropsTheRestOfAPartialEntry) {
  outbox_.Push(std::make_unique<Bulk>(3, 10));
  EXPECT_TRUE(outbox_.Take());
  EXPECT_EQ(outbox_.queued_bytes(), 20u);
  outbox_.Close(1011, "broken", true);
  EXPECT_EQ(outbox_.queued_bytes(), 0u);
  EXPECT_FALSE(outbox_.Take());
  EXPECT_TRUE(outbox_.TakeClose());
}

TEST_F(OutboxTest, WakesOncePerChangeFromEmpty) {
  for (int i = 0; i < 5; ++i) outbox_.Push("x");
  EXPECT_EQ(wakes_, 1);
  outbox_.Take();
  outbox_.Push("x");
  EXPECT_EQ(wakes_, 1);  // four were still queued
  TakeAll();
  outbox_.Push("x");
  EXPECT_EQ(wakes_, 2);
  outbox_.Close(1012, "stop");
  EXPECT_EQ(wakes_, 2);  // the message before the close has already woken the reader
}

TEST_F(OutboxTest, WakeCallbackMayUseTheOutbox) {
  std::unique_ptr<Outbox> outbox;
  std::string taken;
  outbox = std::make_unique<Outbox>([&] { taken = outbox->Take().value_or(""); });
  outbox->Push("hello");
  EXPECT_EQ(taken, "hello");
}

TEST_F(OutboxTest, MergesNothingBelowTheSoftLimit) {
  for (int i = 0; i < 100; ++i) outbox_.Push(Piece::Make("d", 5));
  EXPECT_EQ(TakeAll().size(), 100u);
}

TEST_F(OutboxTest, MergesPiecesAboveTheSoftLimit) {
  FillToSoftLimit();
  for (const char* text : {"a", "b", "c"}) outbox_.Push(Piece::Make(text, 5));
  const auto all = TakeAll();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[1], "<abc>");
}

TEST_F(OutboxTest, PreservesOrderAroundFixedEntries) {
  FillToSoftLimit();
  outbox_.Push(Piece::Make("a", 5));
  outbox_.Push("done");
  outbox_.Push(Piece::Make("b", 5));
  outbox_.Push(Piece::Make("never", 0));
  outbox_.Push(Piece::Make("merged", 0));
  const auto all = TakeAll();
  EXPECT_EQ(std::vector<std::string>(all.begin() + 1, all.end()),
            std::vector<std::string>({"<a>", "done", "<b>", "<never>", "<merged>"}));
}

TEST_F(OutboxTest, MergesPiecesOfConcurrentLanes) {
  FillToSoftLimit();
  for (const char* letter : {"a", "b", "c"}) {
    for (uint64_t lane = 1; lane <= 3; ++lane) {
      outbox_.Push(Piece::Make(letter, lane));
    }
  }
  const auto all = TakeAll();
  EXPECT_EQ(std::vector<std::string>(all.begin() + 1, all.end()),
            std::vector<std::string>({"<abc>", "<abc>", "<abc>"}));
}

TEST_F(OutboxTest, ClosesASlowReaderAtTheHardLimit) {
  const std::string block(kSoft / 2, 'x');
  size_t pushed = 0;
  while (outbox_.queued_bytes() + block.size() <= kHard) {
    outbox_.Push(block);
    pushed += block.size();
    ASSERT_EQ(outbox_.queued_bytes(), pushed);
    ASSERT_FALSE(outbox_.TakeClose().has_value());
  }
  outbox_.Push(block);
  EXPECT_EQ(outbox_.queued_bytes(), 0u);
  EXPECT_FALSE(outbox_.Take().has_value());
  EXPECT_EQ(wakes_, 2);  // the reader waits in a write and must be notified
  const auto close = outbox_.TakeClose();
  ASSERT_TRUE(close.has_value());
  EXPECT_EQ(close->code, 1013);
  outbox_.Push("more");
  EXPECT_EQ(outbox_.queued_bytes(), 0u);
}

TEST_F(OutboxTest, MergedPiecesCountTowardsTheHardLimit) {
  const std::string block(64 << 10, 'x');
  for (size_t bytes = 0; bytes <= kHard; bytes += block.size()) outbox_.Push(Piece::Make(block, 5));
  const auto close = outbox_.TakeClose();
  ASSERT_TRUE(close.has_value());
  EXPECT_EQ(close->code, 1013);
}

TEST_F(OutboxTest, LargeMessageIsNotASlowReader) {
  outbox_.Push(std::string(kHard + 1, 'x'));
  EXPECT_FALSE(outbox_.TakeClose().has_value());
  EXPECT_EQ(TakeAll().size(), 1u);
}

TEST_F(OutboxTest, ClosesAfterQueuedMessages) {
  outbox_.Push("last words");
  outbox_.Close(4409, "taken over");
  outbox_.Push("too late");
  EXPECT_FALSE(outbox_.TakeClose().has_value());
  EXPECT_EQ(TakeAll(), std::vector<std::string>({"last words"}));
  const auto close = outbox_.TakeClose();
  ASSERT_TRUE(close.has_value());
  EXPECT_EQ(close->code, 4409);
  EXPECT_EQ(close->reason, "taken over");
  EXPECT_FALSE(outbox_.TakeClose().has_value());  // once
}

TEST_F(OutboxTest, ClosesImmediatelyAndOnce) {
  outbox_.Push("dropped");
  outbox_.Close(1011, "broken", true);
  outbox_.Close(1012, "second");
  EXPECT_FALSE(outbox_.Take().has_value());
  EXPECT_EQ(outbox_.TakeClose()->code, 1011);
  EXPECT_EQ(wakes_, 2);
}

TEST_F(OutboxTest, ClosingAnEmptyOutboxWakes) {
  outbox_.Close(1012, "stop");
  EXPECT_EQ(wakes_, 1);
}

TEST_F(OutboxTest, DetachDropsMessagesAndWakesNobody) {
  outbox_.Push("waiting");
  outbox_.Detach();
  EXPECT_EQ(outbox_.queued_bytes(), 0u);
  outbox_.Push("dropped");
  outbox_.Close(1012, "stop");
  EXPECT_FALSE(outbox_.Take().has_value());
  EXPECT_FALSE(outbox_.TakeClose().has_value());
  EXPECT_EQ(wakes_, 1);
}

TEST_F(OutboxTest, ManyThreadsPushWhileOneTakes) {
  constexpr int kThreads = 4, kEach = 5000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) outbox_.Push(std::to_string(t) + " " + std::to_string(i));
    });
  }
  std::vector<int> next(kThreads, 0);
  for (int taken = 0; taken < kThreads * kEach;) {
    const auto message = outbox_.Take();
    if (!message) continue;
    const int thread = message->at(0) - '0';
    ASSERT_EQ(*message, std::to_string(thread) + " " + std::to_string(next[thread]++));
    ++taken;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(outbox_.queued_bytes(), 0u);
}

}  // namespace
}  // namespace ringside
