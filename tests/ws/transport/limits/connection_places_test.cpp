// Admission of connections, and eviction of others for them.
#include "ws/transport/limits/connection_places.h"

#include <gtest/gtest.h>

#include <vector>

namespace ringside::testing {
namespace {

using PlaceVerdict = ConnectionPlaces::Verdict;

/// Places with a record of evictions.
class ConnectionPlacesTest : public ::testing::Test {
 protected:
  ConnectionPlaces places_{6, [](const std::string& owner) { return owner == "small" ? 2 : 4; },
                           std::chrono::milliseconds(0)};
  std::vector<uint64_t> evicted_;

  PlaceVerdict Take(const std::string& owner, uint64_t* place) { return places_.Take(owner, place); }
  uint64_t Taken(const std::string& owner) {
    uint64_t place = 0;
    EXPECT_EQ(Take(owner, &place), PlaceVerdict::kTaken);
    EXPECT_NE(place, 0U);
    return place;
  }
  PlaceVerdict Refused(const std::string& owner) {
    uint64_t place = 0;
    const PlaceVerdict verdict = Take(owner, &place);
    EXPECT_EQ(place, 0U);
    return verdict;
  }
  void SetIdle(uint64_t place) {
    places_.SetIdle(place, [this, place] { evicted_.push_back(place); });
  }
  void SetWaiting(uint64_t place) {
    places_.SetWaiting(place, [this, place] { evicted_.push_back(place); });
  }
};

TEST_F(ConnectionPlacesTest, OwnerIsLimitedToItsShare) {
  for (int i = 0; i < 4; ++i) Taken("large");
  EXPECT_EQ(Refused("large"), PlaceVerdict::kOwnerFull);
  Taken("small");
  Taken("small");
  EXPECT_EQ(Refused("small"), PlaceVerdict::kOwnerFull);
  EXPECT_EQ(Refused("other"), PlaceVerdict::kFull);
  EXPECT_EQ(places_.taken(), 6);
  EXPECT_EQ(places_.taken_by("large"), 4);
}

TEST_F(ConnectionPlacesTest, FullOwnerEvictsItsLongestIdleConnection) {
  const uint64_t busy = Taken("small"), idle = Taken("small");
  SetIdle(idle);
  const uint64_t next = Taken("small");
  EXPECT_EQ(evicted_, std::vector<uint64_t>{idle});
  EXPECT_FALSE(places_.SetBusy(idle)) << "its place is gone";
  SetIdle(busy);
  SetIdle(next);
  SetIdle(busy);  // already idle: keeps its time
  Taken("small");
  EXPECT_EQ(evicted_.back(), busy);
  EXPECT_EQ(places_.taken_by("small"), 2);
  EXPECT_EQ(places_.evicted(), 2U);
}

TEST_F(ConnectionPlacesTest, BusyConnectionIsNotEvicted) {
  const uint64_t first = Taken("small"), second = Taken("small");
  SetIdle(first);
  EXPECT_TRUE(places_.SetBusy(first));
  EXPECT_EQ(Refused("small"), PlaceVerdict::kOwnerFull);
  SetIdle(second);
  Taken("small");
  EXPECT_EQ(evicted_, std::vector<uint64_t>{second});
}

TEST_F(ConnectionPlacesTest, FullServerEvictsFromTheLargestOwner) {
  std::vector<uint64_t> large;
  for (int i = 0; i < 4; ++i) large.push_back(Taken("large"));
  const uint64_t small = Taken("small");
  Taken("small");
  SetIdle(small);
  SetIdle(large[2]);
  Taken("other");
  EXPECT_EQ(evicted_, std::vector<uint64_t>{large[2]}) << "though another one has been idle for longer";
  EXPECT_EQ(places_.taken(), 6);
}

TEST_F(ConnectionPlacesTest, FullServerEvictsAConnectionThatWaitsForItsClient) {
  std::vector<uint64_t> large;
  for (int i = 0; i < 4; ++i) large.push_back(Taken("large"));
  for (const uint64_t place : large) SetWaiting(place);
  EXPECT_EQ(Refused("large"), PlaceVerdict::kOwnerFull) << "its own next one is no reason";
  Taken("other");
  Taken("other");
  EXPECT_TRUE(evicted_.empty()) << "there was room";
  EXPECT_TRUE(places_.SetBusy(large[0]));
  Taken("small");
  EXPECT_EQ(evicted_, std::vector<uint64_t>{large[1]}) << "the one that has waited longest";
  EXPECT_FALSE(places_.SetBusy(large[1])) << "its place is gone";
}

TEST_F(ConnectionPlacesTest, EvictsIdleBeforeWaitingConnections) {
  std::vector<uint64_t> large;
  for (int i = 0; i < 4; ++i) large.push_back(Taken("large"));
  SetWaiting(large[0]);
  SetWaiting(large[1]);
  SetIdle(large[1]);
  SetWaiting(large[1]);  // already idle: keeps its time
  Taken("other");
  Taken("other");
  Taken("small");
  EXPECT_EQ(evicted_, std::vector<uint64_t>{large[1]});
}

TEST_F(ConnectionPlacesTest, EvictsFromTheOwnerWithMostWaitingConnections) {
  std::vector<uint64_t> busy, hoarded;
  for (int i = 0; i < 3; ++i) busy.push_back(Taken("busy"));
  for (int i = 0; i < 3; ++i) hoarded.push_back(Taken("hoard"));
  SetIdle(busy[0]);
  for (const uint64_t place : hoarded) SetWaiting(place);
  Taken("other");
  EXPECT_EQ(evicted_, std::vector<uint64_t>{hoarded[0]});
}

TEST(PatientPlacesTest, ConnectionMayWaitForItsClient) {
  ConnectionPlaces places(3, nullptr, std::chrono::hours(1));
  std::vector<uint64_t> taken(3);
  for (uint64_t& place : taken) {
    ASSERT_EQ(places.Take("hoard", &place), ConnectionPlaces::Verdict::kTaken);
    places.SetWaiting(place, [] { FAIL() << "it was evicted"; });
  }
  uint64_t next = 0;
  EXPECT_EQ(places.Take("other", &next), ConnectionPlaces::Verdict::kFull);
}

TEST_F(ConnectionPlacesTest, EqualOwnersDoNotEvictEachOther) {
  const uint64_t first = Taken("a"), second = Taken("a");
  Taken("b");
  Taken("b");
  Taken("c");
  Taken("c");
  SetIdle(first);
  EXPECT_EQ(Refused("b"), PlaceVerdict::kFull);
  EXPECT_EQ(Refused("c"), PlaceVerdict::kFull);
  Taken("a");
  EXPECT_EQ(evicted_, std::vector<uint64_t>{first}) << "its own";
  SetIdle(second);
  Taken("d");
  EXPECT_EQ(evicted_.back(), second);
}

TEST_F(ConnectionPlacesTest, PlaceFollowsTheOwnerOfAProxiedRequest) {
  uint64_t place = Taken("small");
  EXPECT_EQ(Take("small", &place), PlaceVerdict::kTaken);
  EXPECT_EQ(places_.taken(), 1) << "the same one";
  EXPECT_EQ(Take("large", &place), PlaceVerdict::kTaken);
  EXPECT_EQ(places_.taken_by("small"), 0);
  EXPECT_EQ(places_.taken_by("large"), 1);
  Taken("small");
  Taken("small");
  EXPECT_EQ(Take("small", &place), PlaceVerdict::kOwnerFull);
  EXPECT_EQ(place, 0U);
  EXPECT_EQ(places_.taken_by("large"), 0) << "a refused connection holds no place";
}

TEST(OneOwnersPlacesTest, UnlimitedOwnerGetsServerFull) {
  ConnectionPlaces places(1, nullptr, std::chrono::milliseconds(0));
  uint64_t first = 0, second = 0;
  EXPECT_EQ(places.Take("", &first), PlaceVerdict::kTaken);
  EXPECT_EQ(places.Take("", &second), PlaceVerdict::kFull);
}

TEST_F(ConnectionPlacesTest, ReusesReleasedPlaces) {
  for (int round = 0; round < 100; ++round) {
    const uint64_t first = Taken("small"), second = Taken("small");
    SetIdle(second);
    places_.GiveBack(first);
    places_.GiveBack(second);
    places_.GiveBack(second);
  }
  EXPECT_EQ(places_.taken(), 0);
  EXPECT_TRUE(evicted_.empty());
}

}  // namespace
}  // namespace ringside::testing
