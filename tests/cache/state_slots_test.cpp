// The boundaries of a recurrent state in their slots, against a model of the slab: each slot remembers which tokens its
// boundary was computed from.
#include "cache/state_slots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace ringside {
namespace {

constexpr int64_t kChunk = StateShape::kChunk;

/// A conversation, its boundaries, and a slab whose slots remember the tokens before their boundary.
struct Conversation {
  explicit Conversation(int64_t slots) : state(slots) {}

  void Append(int64_t rows) {
    const int64_t position = std::ssize(tokens);
    const int read = state.SlotOf(StateShape::BoundaryBefore(position));
    std::vector<StateWrite> writes;
    state.Append(position, rows, {turn, pinned, starts}, &writes);
    for (int64_t i = 0; i < rows; ++i) tokens.push_back(static_cast<int32_t>(random() % 1000));
    int64_t before = position;
    for (const StateWrite& write : writes) {
      ASSERT_NE(write.slot, read) << "the slot that the step reads";
      ASSERT_GT(write.position, before);
      ASSERT_EQ(write.position % kChunk, 0);
      ASSERT_TRUE(write.slot >= 0 && write.slot < state.slots());
      before = write.position;
      slab[write.slot] = {tokens.begin(), tokens.begin() + write.position};
    }
    const int64_t last = StateShape::BoundaryBefore(std::ssize(tokens));
    ASSERT_TRUE(last <= position || (!writes.empty() && writes.back().position == last));
    Check();
  }
  void RollBack(int64_t to) {
    state.RollBack(to);
    tokens.resize(static_cast<size_t>(to));
    std::erase_if(starts, [&](int64_t start) { return start >= to; });
    Check();
  }
  void Check() const {
    ASSERT_LE(std::ssize(state.held()), state.slots());
    int64_t before = 0;
    for (const StateWrite& held : state.held()) {
      ASSERT_GT(held.position, before);
      before = held.position;
      ASSERT_LE(held.position, std::ssize(tokens));
      const std::vector<int32_t> expected(tokens.begin(), tokens.begin() + held.position);
      ASSERT_EQ(slab.at(held.slot), expected) << "the boundary at " << held.position;
    }
    const int64_t last = StateShape::BoundaryBefore(std::ssize(tokens));
    ASSERT_TRUE(last == 0 || state.SlotOf(last) >= 0);
  }

  std::mt19937 random{7};
  StateSlots state;
  std::vector<int32_t> tokens;
  std::vector<int64_t> starts;
  int64_t pinned = 0, turn = 0;
  std::map<int, std::vector<int32_t>> slab;
};

TEST(StateSlots, EveryBoundaryBelongsToItsTokensOnRandomWalks) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    Conversation c(2 + static_cast<int64_t>(seed % 5));
    c.pinned = random() % 2 == 0 ? 0 : static_cast<int64_t>(random() % 300);
    for (int step = 0; step < 200; ++step) {
      const int64_t next = std::ssize(c.tokens);
      const auto kind = random() % 10;
      if (kind == 0 && next > 0) {
        const int64_t to = static_cast<int64_t>(random()) % (next + 1), floor = c.state.Floor(to, next);
        ASSERT_LE(floor, to);
        ASSERT_EQ(c.state.Floor(floor, next), floor);
        c.RollBack(floor);
      } else if (kind == 1) {
        c.starts.push_back(next);
        if (c.starts.size() > 1 && c.starts.back() == c.starts[c.starts.size() - 2]) c.starts.pop_back();
      } else if (kind == 2) {
        c.turn = next + static_cast<int64_t>(random() % 100);
      } else {
        c.Append(1 + static_cast<int64_t>(random() % (kind == 3 ? 1000 : kind < 7 ? 70 : 3)));
      }
      if (testing::Test::HasFatalFailure()) FAIL() << "seed " << seed << ", step " << step;
    }
  }
}

TEST(StateSlots, ContinuesAtTheTailOrAtABoundary) {
  Conversation c(4);
  c.Append(150);  // boundaries 64 and 128, tail of 22 rows
  EXPECT_EQ(c.state.positions(), (std::vector<int64_t>{64, 128}));
  for (int64_t to = 0; to <= 150; ++to) {
    EXPECT_EQ(c.state.Floor(to, 150), to >= 128 ? to : to >= 64 ? 64 : 0) << to;
  }
  c.RollBack(130);
  EXPECT_EQ(c.state.Floor(129, 130), 129);
  c.RollBack(64);
  EXPECT_EQ(c.state.positions(), (std::vector<int64_t>{64}));
  EXPECT_EQ(c.state.Floor(63, 64), 0) << "the tail before a boundary is gone";
  c.RollBack(0);
  EXPECT_TRUE(c.state.held().empty());
}

TEST(StateSlots, KeepsTheBoundaryBeforeTheLastAnswer) {
  Conversation c(4);
  c.pinned = 70;
  c.turn = 499;
  c.Append(500);
  for (int i = 0; i < 3000; ++i) c.Append(1);
  EXPECT_GE(c.state.SlotOf(448), 0) << "to sample the answer again";
  EXPECT_GE(c.state.SlotOf(64), 0) << "the pinned prefix, which other conversations share";
  EXPECT_GE(c.state.SlotOf(3456), 0);
}

TEST(StateSlots, DropsTheDensestInteriorFirst) {
  Conversation c(5);
  c.Append(64 * 64);
  // The boundaries are spread over the whole history.
  int64_t before = 0;
  for (const int64_t position : c.state.positions()) {
    EXPECT_LE(position - before, 64 * 32) << position;
    before = position;
  }
  EXPECT_EQ(before, 64 * 64);
}

TEST(StateSlots, DropsMessageStartsAfterOtherBoundaries) {
  Conversation c(4);
  c.starts = {200, 650};
  for (int i = 0; i < 40; ++i) c.Append(64);
  EXPECT_GE(c.state.SlotOf(192), 0);
  EXPECT_GE(c.state.SlotOf(640), 0);
}

TEST(StateSlots, TwoSlotsContinueAnyConversation) {
  Conversation c(2);
  for (int i = 0; i < 50; ++i) c.Append(100);
  EXPECT_EQ(c.state.positions().back(), 4992);
}

TEST(StateSlots, WithoutStateEveryPositionIsThere) {
  StateSlots none(0);
  std::vector<StateWrite> writes;
  none.Append(0, 1000, {}, &writes);
  EXPECT_TRUE(writes.empty() && none.held().empty() && !none.used());
  EXPECT_EQ(none.Floor(77, 1000), 77);
}

}  // namespace
}  // namespace ringside
