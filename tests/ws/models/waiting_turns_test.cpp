#include "ws/models/waiting_turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringside {
namespace {

using ::testing::ElementsAre;

TurnRequest TurnOf(TurnId turn, std::string tenant = "me") {
  TurnRequest request;
  request.turn = turn;
  request.tenant = std::move(tenant);
  return request;
}

std::vector<TurnId> Ids(const std::vector<TurnRequest>& turns) {
  std::vector<TurnId> ids;
  for (const TurnRequest& turn : turns) ids.push_back(turn.turn);
  return ids;
}

TEST(WaitingTurnsTest, KeepsTheOrderOfEachModel) {
  WaitingTurns waiting(8);
  for (const auto& [turn, model] : {std::pair<TurnId, const char*>{1, "a"}, {2, "b"}, {3, "a"}}) {
    ASSERT_TRUE(waiting.Push(model, TurnOf(turn), static_cast<int64_t>(turn * 10)).ok());
  }
  EXPECT_EQ(waiting.OldestNs("a"), 10);
  EXPECT_EQ(waiting.OldestNs("b"), 20);
  EXPECT_EQ(waiting.OldestNs("c"), std::nullopt);
  EXPECT_THAT(Ids(waiting.PopAll("a")), ElementsAre(1, 3));
  EXPECT_EQ(waiting.size(), 1);
}

TEST(WaitingTurnsTest, CancelledTurnLeavesItsPlace) {
  WaitingTurns waiting(2);
  ASSERT_TRUE(waiting.Push("a", TurnOf(1), 1).ok());
  ASSERT_TRUE(waiting.Push("a", TurnOf(2), 2).ok());
  EXPECT_EQ(waiting.Push("a", TurnOf(3), 3).code(), StatusCode::kOverloaded);
  EXPECT_TRUE(waiting.Push("a", TurnOf(4, "other"), 4).ok());
  EXPECT_TRUE(waiting.Cancel(1));
  EXPECT_FALSE(waiting.Cancel(1));
  EXPECT_THAT(Ids(waiting.PopCancelled()), ElementsAre(1));
  EXPECT_EQ(waiting.OldestNs("a"), 2);
  EXPECT_TRUE(waiting.Push("a", TurnOf(5), 5).ok());
  EXPECT_THAT(Ids(waiting.PopAll("a")), ElementsAre(2, 4, 5));
}

}  // namespace
}  // namespace ringside
