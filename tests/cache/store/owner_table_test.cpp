// The records of owners: every legal transition of both states with its data, no other one, and removal of records that
// hold nothing.
#include "cache/store/owner_table.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "tests/cache/snapshot_cache.h"

namespace ringside {
namespace {

using A = Arrival;
using AE = ArrivalEvent;
using D = DiskWork;
using DE = DiskEvent;

template <class State, class Event>
struct Step {
  const char* name;
  State from;
  Event event;
  State to;
};

constexpr Step<A, AE> kArrivalSteps[] = {
    {"OfferWaits", A::kNone, AE::kOffer, A::kWaiting},
    {"ForkIsPending", A::kNone, AE::kFork, A::kForking},
    {"EraseOfNothingIsNothing", A::kNone, AE::kErase, A::kNone},
    {"OfferReplacesTheWaiting", A::kWaiting, AE::kOffer, A::kWaiting},
    {"ForkLeavesTheWaiting", A::kWaiting, AE::kFork, A::kWaitingAndForking},
    {"RemoveEndsTheWait", A::kWaiting, AE::kRemove, A::kNone},
    {"EraseEndsTheWait", A::kWaiting, AE::kErase, A::kNone},
    {"OfferSupersedesTheFork", A::kForking, AE::kOffer, A::kWaiting},
    {"ForkSupersedesTheFork", A::kForking, AE::kFork, A::kForking},
    {"CancelEndsTheFork", A::kForking, AE::kCancelFork, A::kNone},
    {"EraseEndsTheFork", A::kForking, AE::kErase, A::kNone},
    {"OfferSupersedesBoth", A::kWaitingAndForking, AE::kOffer, A::kWaiting},
    {"ForkSupersedesTheForkAlone", A::kWaitingAndForking, AE::kFork, A::kWaitingAndForking},
    {"CancelLeavesTheWaiting", A::kWaitingAndForking, AE::kCancelFork, A::kWaiting},
    {"RemoveLeavesTheFork", A::kWaitingAndForking, AE::kRemove, A::kForking},
    {"EraseEndsBoth", A::kWaitingAndForking, AE::kErase, A::kNone},
};

constexpr Step<D, DE> kDiskSteps[] = {
    {"WriteBegins", D::kNone, DE::kBeginWrite, D::kWriting},
    {"SecondWriterEnds", D::kNone, DE::kEndWrite, D::kNone},
    {"EraseHides", D::kNone, DE::kErase, D::kErasing},
    {"SecondEraseEnds", D::kNone, DE::kEndErase, D::kNone},
    {"SecondWriterBegins", D::kWriting, DE::kBeginWrite, D::kWriting},
    {"WriteEnds", D::kWriting, DE::kEndWrite, D::kNone},
    {"EraseHidesDuringAWrite", D::kWriting, DE::kErase, D::kErasingWhileWriting},
    {"SecondEraseEndsDuringAWrite", D::kWriting, DE::kEndErase, D::kWriting},
    {"WriteBeginsHidden", D::kErasing, DE::kBeginWrite, D::kErasingWhileWriting},
    {"SecondWriterEndsHidden", D::kErasing, DE::kEndWrite, D::kErasing},
    {"SecondEraseStaysHidden", D::kErasing, DE::kErase, D::kErasing},
    {"EraseEnds", D::kErasing, DE::kEndErase, D::kNone},
    {"SecondWriterBeginsHidden", D::kErasingWhileWriting, DE::kBeginWrite, D::kErasingWhileWriting},
    {"EraseEndsDuringAWrite", D::kErasingWhileWriting, DE::kEndErase, D::kWriting},
    {"WriteEndsHidden", D::kErasingWhileWriting, DE::kEndWrite, D::kErasing},
    {"SecondEraseDuringAWrite", D::kErasingWhileWriting, DE::kErase, D::kErasingWhileWriting},
};

template <class State, class Event, size_t n>
void ExpectOnlyTheseAreLegal(const Step<State, Event> (&steps)[n], State last_state, Event last_event) {
  size_t legal = 0;
  for (int from = 0; from <= static_cast<int>(last_state); ++from) {
    for (int event = 0; event <= static_cast<int>(last_event); ++event) {
      std::optional<State> expected;
      for (const auto& step : steps) {
        if (static_cast<int>(step.from) == from && static_cast<int>(step.event) == event) expected = step.to;
      }
      EXPECT_EQ(Next(static_cast<State>(from), static_cast<Event>(event)), expected) << from << " " << event;
      legal += expected.has_value() ? 1 : 0;
    }
  }
  EXPECT_EQ(legal, n) << "a transition is listed twice";
}

TEST(OwnerStatesTest, NoOtherTransitionIsLegal) {
  ExpectOnlyTheseAreLegal(kArrivalSteps, A::kWaitingAndForking, AE::kErase);
  ExpectOnlyTheseAreLegal(kDiskSteps, D::kErasingWhileWriting, DE::kEndErase);
}

class OwnerTableTest : public SnapshotCacheTest {
 protected:
  Snapshot NewSnapshot() {
    KvCache& cache = Fresh(0, {4, 40, Eviction::kTurn});
    Grow(cache, 20);
    return Capture(cache);
  }
  /// Offers a snapshot and returns its id.
  uint64_t Offer(const std::string& owner) {
    Snapshot snapshot = NewSnapshot();
    const uint64_t id = snapshot.header().id;
    table_.Offer(owner, std::move(snapshot));
    return id;
  }

  OwnerTable table_;
};

class ArrivalTest : public OwnerTableTest, public testing::WithParamInterface<Step<A, AE>> {};

TEST_P(ArrivalTest, HasTheDataOfItsState) {
  const auto& [name, from, event, to] = GetParam();
  uint64_t waiting = HasWaiting(from) ? Offer("a") : 0;
  uint64_t ticket = HasFork(from) ? table_.Fork("old", "a") : 0;
  ASSERT_EQ(table_.arrival("a"), from);
  const uint64_t old_ticket = ticket;
  std::string source = "old";
  switch (event) {
    case AE::kOffer:
      waiting = Offer("a");
      break;
    case AE::kFork:
      ticket = table_.Fork(source = "new", "a");
      break;
    case AE::kCancelFork:
      table_.CancelFork("a");
      break;
    case AE::kRemove:
      table_.RemoveWaiting("a");
      break;
    case AE::kErase:
      table_.Erase("a", /*hide=*/false);
      break;
  }
  EXPECT_EQ(table_.arrival("a"), to);
  EXPECT_EQ(table_.Waiting("a") != nullptr, HasWaiting(to));
  EXPECT_EQ(table_.Waiting("a", waiting) != nullptr, HasWaiting(to)) << "not the newest";
  EXPECT_EQ(table_.waiting(), HasWaiting(to) ? 1 : 0);
  EXPECT_EQ(table_.waiting_bytes() > 0, HasWaiting(to));
  EXPECT_EQ(table_.ForkSource("a"), HasFork(to) ? std::optional(source) : std::nullopt);
  EXPECT_EQ(table_.IsForking("a", ticket), HasFork(to));
  if (event == AE::kFork) {
    EXPECT_FALSE(table_.IsForking("a", old_ticket));
  }
  EXPECT_EQ(table_.size(), to == A::kNone ? 0u : 1u);
}

INSTANTIATE_TEST_SUITE_P(Transitions, ArrivalTest, testing::ValuesIn(kArrivalSteps),
                         [](const auto& info) { return info.param.name; });

class DiskWorkTest : public OwnerTableTest, public testing::WithParamInterface<Step<D, DE>> {};

TEST_P(DiskWorkTest, HidesAndMarksTheObject) {
  const auto& [name, from, event, to] = GetParam();
  table_.SetOnDisk("a", 7);
  if (IsWriting(from)) table_.BeginWrite("a");
  if (IsErasing(from)) table_.Erase("a", /*hide=*/true);
  ASSERT_EQ(table_.disk_work("a"), from);
  switch (event) {
    case DE::kBeginWrite:
      table_.BeginWrite("a");
      break;
    case DE::kEndWrite:
      table_.EndWrite("a");
      break;
    case DE::kErase:
      table_.Erase("a", /*hide=*/true);
      break;
    case DE::kEndErase:
      table_.EndErase("a");
      break;
  }
  EXPECT_EQ(table_.disk_work("a"), to);
  EXPECT_EQ(table_.IsWriting("a"), to == D::kWriting || to == D::kErasingWhileWriting);
  EXPECT_EQ(table_.IsErasing("a"), to == D::kErasing || to == D::kErasingWhileWriting);
  EXPECT_EQ(table_.IsOnDisk("a", 7), to == D::kNone || to == D::kWriting) << "hidden while it is erased";
  table_.SetOnDisk("a", std::nullopt);
  EXPECT_EQ(table_.size(), to == D::kNone ? 0u : 1u);
}

INSTANTIATE_TEST_SUITE_P(Transitions, DiskWorkTest, testing::ValuesIn(kDiskSteps),
                         [](const auto& info) { return info.param.name; });

using OwnerTableDeathTest = OwnerTableTest;

TEST_F(OwnerTableDeathTest, IllegalTransitionsAbort) {
  EXPECT_DEATH(table_.RemoveWaiting("a"), "CHECK failed");
  EXPECT_DEATH(table_.CancelFork("a"), "CHECK failed");
  EXPECT_DEATH(table_.EndSave("a", 0), "CHECK failed");
}

TEST_F(OwnerTableTest, WaitingSnapshotsAreFifo) {
  Offer("a");
  Offer("b");
  const int64_t each = table_.waiting_bytes() / 2;
  EXPECT_EQ(table_.OldestWaitingExceptLast(), "a");
  Offer("a");  // now the last
  EXPECT_EQ(table_.OldestWaitingExceptLast(), "b");
  EXPECT_EQ(table_.waiting_bytes(), 2 * each);
  EXPECT_EQ(table_.waiting_bytes_except_last(), each);
  Snapshot same = table_.Waiting("b")->Share();
  same.Seal();
  table_.ReplaceWaiting("b", std::move(same));
  EXPECT_EQ(table_.OldestWaitingExceptLast(), "b") << "keeps its place";
  EXPECT_TRUE(table_.Waiting("b")->chunks()[0].hash.has_value());
  table_.RemoveWaiting("b");
  EXPECT_EQ(table_.OldestWaitingExceptLast(), std::nullopt);
  EXPECT_EQ(table_.waiting_bytes_except_last(), 0);
}

TEST_F(OwnerTableTest, ReportsADroppedSnapshotOnce) {
  const uint64_t first = Offer("a");
  table_.DropWaiting("a");
  const uint64_t second = Offer("a");
  EXPECT_FALSE(table_.ConsumeDropped("a", second)) << "still waits";
  EXPECT_FALSE(table_.ConsumeDropped("b", first));
  EXPECT_TRUE(table_.ConsumeDropped("a", first));
  EXPECT_FALSE(table_.ConsumeDropped("a", first));
  table_.RemoveWaiting("a");
  EXPECT_EQ(table_.size(), 0u);
}

TEST_F(OwnerTableTest, AnObjectInASlotIsSpareExceptDuringSaves) {
  EXPECT_FALSE(table_.IsSpareBase("a"));
  table_.SetInSlot("a", true);
  EXPECT_TRUE(table_.IsSpareBase("a"));
  table_.BeginSave("a", 3);
  table_.BeginSave("a", 4);
  EXPECT_EQ(table_.saving_bytes(), 7);
  table_.EndSave("a", 3);
  EXPECT_FALSE(table_.IsSpareBase("a")) << "one save is still in progress";
  table_.EndSave("a", 4);
  EXPECT_TRUE(table_.IsSpareBase("a"));
  EXPECT_EQ(table_.saving_bytes(), 0);
  table_.SetInSlot("a", false);
  EXPECT_FALSE(table_.IsSpareBase("a"));
  EXPECT_EQ(table_.size(), 0u);
}

TEST_F(OwnerTableTest, KeepsObjectsOnDiskUntilTheFlushEnds) {
  table_.KeepOnDisk("a", true);
  table_.KeepOnDisk("b", true);
  table_.KeepOnDisk("b", false);
  table_.SetOnDisk("c", 3);
  EXPECT_TRUE(table_.IsKeptOnDisk("a"));
  EXPECT_FALSE(table_.IsKeptOnDisk("b"));
  table_.KeepNoneOnDisk();
  EXPECT_FALSE(table_.IsKeptOnDisk("a"));
  EXPECT_TRUE(table_.IsOnDisk("c", 3));
  EXPECT_FALSE(table_.IsOnDisk("c", 4));
  EXPECT_EQ(table_.size(), 1u);
}

}  // namespace
}  // namespace ringside
