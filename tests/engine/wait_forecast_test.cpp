// Predicted waits: of prompts, of slots, and in the order in which tenants are served.
#include "engine/overload/wait_forecast.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <unordered_map>

namespace ringside {
namespace {

constexpr double kPromptNs = 1000;    // per token
constexpr double kTurnEndNs = 2.5e6;  // between two ends of turns

class WaitForecastTest : public ::testing::Test {
 protected:
  /// The state after a round, with a free slot for each waiting turn.
  void Publish(std::unordered_map<std::string, WaitForecast::Tenant> tenants, int64_t free_slots = 1000) {
    for (const auto& [name, tenant] : tenants) {
      if (!known_.contains(name)) counter_.Enter(name);
      counter_.Add(name, tenant.served - counter_.Of(name));
      known_.insert(name);
    }
    forecast_.Publish({std::move(tenants), kPromptNs, kTurnEndNs, free_slots});
  }
  double TokensBefore(const std::string& tenant) { return forecast_.WaitNs(tenant) / kPromptNs; }
  double EndsBefore(const std::string& tenant) { return forecast_.WaitNs(tenant) / kTurnEndNs; }

  VirtualTokenCounter counter_;
  std::set<std::string> known_;
  WaitForecast forecast_{counter_};
};

TEST_F(WaitForecastTest, NothingIsBeforeATurnOfAnIdleEngine) {
  EXPECT_EQ(forecast_.WaitNs("a"), 0);
  EXPECT_EQ(forecast_.LongestNs(), 0);
  Publish({{"a", {.running = 8}}}, /*free_slots=*/0);
  EXPECT_EQ(forecast_.WaitNs("a"), 0) << "all slots are held, and no turn waits";
}

TEST_F(WaitForecastTest, CountsTheTokensOfPrefillingAndWaitingTurns) {
  Publish({{"a", {.tokens = 3000, .running = 2, .waiting = 1}}});
  EXPECT_EQ(TokensBefore("a"), 3000);
  EXPECT_EQ(forecast_.LongestNs(), 3000 * kPromptNs);
}

TEST_F(WaitForecastTest, SubmittedTurnsCountBeforeTheEngineHasReceivedThem) {
  Publish({{"a", {.tokens = 500, .running = 1}}});
  forecast_.Arrive("a", 100);
  forecast_.Arrive("a", 200);
  EXPECT_EQ(TokensBefore("a"), 800);
  forecast_.Receive("a", 100);
  EXPECT_EQ(TokensBefore("a"), 800) << "until the end of the round";
  Publish({{"a", {.tokens = 600, .running = 2}}});
  EXPECT_EQ(TokensBefore("a"), 800) << "the other one is still in the inbox";
  forecast_.Withdraw("a", 200);
  EXPECT_EQ(TokensBefore("a"), 600);
}

TEST_F(WaitForecastTest, LongQueueOfOneTenantDelaysOnlyItsOwnTurns) {
  Publish({{"many", {.served = 10'000, .tokens = 900'000, .running = 1}}});
  EXPECT_EQ(TokensBefore("many"), 900'000);
  EXPECT_EQ(TokensBefore("new"), 0);
  for (int i = 0; i < 50; ++i) forecast_.Arrive("many", 1000);  // within one step
  EXPECT_EQ(TokensBefore("many"), 950'000);
  EXPECT_EQ(TokensBefore("new"), 0);
}

TEST_F(WaitForecastTest, WaitsForTheTokensThatOthersAreServedBeforeIt) {
  // In buckets of served tokens: "own" has its next token in the fourth, to which "many" gets 4 * 2,048 of its tokens.
  const double begin = 100 * kServedBucket;
  Publish({{"own", {.served = begin + 100, .tokens = 7000, .running = 1}},
           {"many", {.served = begin, .tokens = 500'000, .running = 1}},
           {"short", {.served = begin + kServedBucket, .tokens = 40, .running = 1}}});
  EXPECT_EQ(TokensBefore("own"), 7000 + 4 * kServedBucket + 40);
  EXPECT_EQ(TokensBefore("short"), 2 * kServedBucket + 40 + (2 * kServedBucket - 100)) << "the first two buckets";
}

TEST_F(WaitForecastTest, TenantsWithOneTurnEachWaitForEachOther) {
  Publish({});
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(TokensBefore("new"), i * 90) << "arrivals share a bucket";
    forecast_.Arrive("tenant " + std::to_string(i), 90);
  }
}

TEST_F(WaitForecastTest, TenantThatWasServedRecentlyIsNotNew) {
  counter_.Enter("busy");
  counter_.Enter("a");
  counter_.Add("a", 20'000);
  counter_.Add("busy", 30'000);
  counter_.Leave("busy");
  Publish({{"a", {.served = counter_.Of("a"), .tokens = 5000, .running = 1}}});
  EXPECT_EQ(TokensBefore("busy"), 5000) << "it was served more, and returns without a pause";
  EXPECT_EQ(TokensBefore("new"), 0);
}

TEST_F(WaitForecastTest, WaitsForTheEndOfRunningTurnsIfNoSlotIsFree) {
  Publish({{"a", {.running = 6, .waiting = 3}}}, /*free_slots=*/0);
  EXPECT_DOUBLE_EQ(EndsBefore("a"), 4) << "for each waiting turn and for itself";
  forecast_.Arrive("a", 0);
  EXPECT_DOUBLE_EQ(EndsBefore("a"), 5);
  Publish({{"a", {.running = 4, .waiting = 1}}}, /*free_slots=*/4);
  EXPECT_EQ(EndsBefore("a"), 0) << "the waiting turn's cache is loaded, and two slots remain";
}

TEST_F(WaitForecastTest, TurnThatPreemptsAnotherWaitsForNoSlot) {
  Publish({{"many", {.running = 6, .waiting = 100}}, {"few", {.running = 2, .waiting = 2}}}, /*free_slots=*/0);
  EXPECT_EQ(forecast_.WaitNs("few"), 0) << "another tenant has two running turns more";
  EXPECT_EQ(forecast_.WaitNs("new"), 0);
  EXPECT_DOUBLE_EQ(EndsBefore("many"), 103);
}

TEST_F(WaitForecastTest, SlotsAlternateBetweenTenants) {
  Publish({{"many", {.running = 4, .waiting = 100}}, {"own", {.running = 4, .waiting = 1}}}, /*free_slots=*/0);
  EXPECT_DOUBLE_EQ(EndsBefore("own"), 4) << "its own, two of the other tenant, and itself";
}

TEST(BinnedAmounts, CountsWholeBins) {
  BinnedAmounts amounts(100, 10);
  amounts.Add(105, 12);
  amounts.Add(95, 3);
  amounts.Add(1e6, 7);
  EXPECT_EQ(amounts.Through(0), 8);
  EXPECT_EQ(amounts.Through(109.9), 8);
  EXPECT_EQ(amounts.Through(110), 15);
  EXPECT_EQ(amounts.Through(300), 15);
  EXPECT_EQ(amounts.Through(1e9), 22);
}

}  // namespace
}  // namespace ringside
