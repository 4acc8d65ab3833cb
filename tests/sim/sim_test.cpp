// The simulation itself: it repeats, it ends every turn once, and it comes to what was measured on a device.
#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "tests/sim/report.h"

namespace ringside {
namespace {

CostModel Costs(const std::string& name) {
  auto cost = CostModel::Read(CostFile(name));
  EXPECT_TRUE(cost.ok()) << cost.status().ToString();
  return cost.ok() ? *cost : CostModel{};
}

Result<SimResult> RunLoad(const std::string& costs, const LoadOptions& load, const std::vector<std::string>& settings) {
  ASSIGN_OR_RETURN(const ServerConfig config, SimulatedServer(settings));
  ASSIGN_OR_RETURN(const std::vector<PlannedConversation> plan, PlanLoad(load));
  return Simulate(Costs(costs), config, kMeasuredClient, plan);
}

LoadOptions Users(int64_t conversations) {
  return {.conversations = conversations, .arrivals = "spread", .spread_ms = 10'000, .pause_ms = 10'000};
}

TEST(Simulation, EndsEveryTurnOnceWithEveryTokenAndRepeatsItself) {
  for (const char* arrivals : {"together", "spread", "poisson", "bursts"}) {
    for (const char* lengths : {"fixed", "sharegpt", "long"}) {
      const LoadOptions load{.conversations = 24,
                             .turns = 3,
                             .users = 3,
                             .arrivals = arrivals,
                             .spread_ms = 500,
                             .per_second = 20,
                             .burst = 8,
                             .pause_ms = 300,
                             .lengths = lengths};
      const std::vector<std::string> settings{"--slots", "8", "--memory-len", "4096"};
      const auto result = RunLoad("llama-3-8b.h200", load, settings);
      ASSERT_TRUE(result.ok()) << result.status().ToString();
      const auto plan = PlanLoad(load);
      ASSERT_EQ(result->turns.size(), 72u);
      std::map<int64_t, int64_t> turns;
      for (const SimTurn& turn : result->turns) {
        const auto& planned = (*plan)[static_cast<size_t>(turn.conversation)].turns[static_cast<size_t>(turn.number)];
        EXPECT_EQ(turn.ends, 1);
        EXPECT_EQ(turn.reason, FinishReason::kLength);
        EXPECT_EQ(turn.output, planned.output);
        EXPECT_EQ(turn.input, planned.input);
        EXPECT_EQ(turn.number, turns[turn.conversation]++) << "in their order";
        EXPECT_LE(turn.sent_ms, turn.begun_ms);
        EXPECT_LT(turn.begun_ms, turn.first_ms);
        EXPECT_LE(turn.first_ms, turn.end_ms);
      }
      EXPECT_LE(result->device_ms, result->ms);
      EXPECT_EQ(result->engine.turns_running + result->engine.turns_waiting, 0);
      const auto again = RunLoad("llama-3-8b.h200", load, settings);
      ASSERT_TRUE(again.ok());
      EXPECT_EQ(Json(ReportOf(*result)), Json(ReportOf(*again)));
    }
  }
}

TEST(Simulation, CachesComeBackFromTheHostUnlessItHasNoRoom) {
  for (const char* host_mb : {"65536", "0"}) {
    const auto result = RunLoad("llama-3-8b.h200", {.conversations = 8, .pause_ms = 1000},
                                {"--slots", "2", "--host-cache-mb", host_mb});
    ASSERT_TRUE(result.ok()) << result.status().ToString();
    const SimReport report = ReportOf(*result);
    EXPECT_EQ(report.fresh, 8);
    EXPECT_EQ(report.fresh + report.from_slot + report.from_host + report.recomputed, 32);
    if (host_mb == std::string("0")) {
      EXPECT_EQ(report.from_host, 0);
      EXPECT_GT(report.recomputed, 10);
    } else {
      EXPECT_EQ(report.recomputed, 0);
      EXPECT_GT(report.from_host, 10);
      EXPECT_GT(report.restore_ms.p50, 2.5) << "130 MiB and more at 52 GB/s";
    }
  }
}

TEST(Simulation, SaysWhatIsWrongWithWhatItIsGiven) {
  EXPECT_EQ(PlanLoad({.arrivals = "never"}).status().message(), "no such arrivals: never");
  EXPECT_EQ(PlanLoad({.lengths = "short"}).status().message(), "no such lengths: short");
  EXPECT_FALSE(CostModel::Read("/nowhere").ok());
  EXPECT_FALSE(SimulatedServer({"--no-such-setting", "1"}).ok());
  const auto result = RunLoad("llama-3-8b.h200", {}, {});
  EXPECT_EQ(result.status().message(), "--slots: the simulated device does not know its memory");
}

// One H200, `ringside-server --device cuda`, bf16: BENCHMARKS.md, "On a simulated device". What stands in no list there
// is further off than 15 % and is not held.
struct Measured {
  const char* costs;
  int64_t conversations;
  double tokens_per_second;
  double first_token_p50_ms;                                   // of first turns
  std::optional<std::pair<double, double>> later_p50_ms = {};  // least and most of turns 2 to 4
};

constexpr double kOff = 0.15;
void ExpectNear(double simulated, double measured, const char* what) {
  EXPECT_NEAR(simulated / measured, 1, kOff) << what << ": " << simulated << " instead of " << measured;
}

class Reproduces : public testing::TestWithParam<Measured> {};

TEST_P(Reproduces, TheClosedLoopThatWasMeasured) {
  const Measured& measured = GetParam();
  const auto result =
      RunLoad(measured.costs, {.conversations = measured.conversations}, {"--slots", "160", "--memory-len", "4096"});
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  const SimReport report = ReportOf(*result);
  ExpectNear(report.tokens_per_second, measured.tokens_per_second, "tokens/s");
  ExpectNear(report.first_token_ms[0].p50, measured.first_token_p50_ms, "first token, turn 1");
  if (!measured.later_p50_ms) return;
  for (size_t i = 1; i < report.first_token_ms.size(); ++i) {
    EXPECT_GE(report.first_token_ms[i].p50, measured.later_p50_ms->first * (1 - kOff));
    EXPECT_LE(report.first_token_ms[i].p50, measured.later_p50_ms->second * (1 + kOff));
  }
}

using Range = std::pair<double, double>;
INSTANTIATE_TEST_SUITE_P(Llama8B, Reproduces,
                         testing::Values(Measured{"llama-3-8b.h200", 1, 244, 29, Range{9, 16}},
                                         Measured{"llama-3-8b.h200", 8, 1447, 320, Range{32, 32}},
                                         Measured{"llama-3-8b.h200", 32, 3490, 1372, Range{70, 98}},
                                         Measured{"llama-3-8b.h200", 128, 4719, 6803}));
INSTANTIATE_TEST_SUITE_P(Llama1B, Reproduces,
                         testing::Values(Measured{"llama-3.2-1b.h200", 1, 1170, 8.1, Range{2.3, 3.6}},
                                         Measured{"llama-3.2-1b.h200", 8, 6541, 72},
                                         Measured{"llama-3.2-1b.h200", 32, 15443, 291},
                                         Measured{"llama-3.2-1b.h200", 128, 22002, 1214, Range{19, 22}}));

TEST(Reproduces, ThreeHundredUsersThatPauseOnHalfAsManySlots) {
  const auto result =
      RunLoad("llama-3-8b.h200", Users(300), {"--slots", "136", "--memory-len", "2048", "--host-cache-mb", "65536"});
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  const SimReport report = ReportOf(*result);
  ExpectNear(report.tokens_per_second, 2487, "tokens/s");
  ExpectNear(report.first_token_ms[0].p50, 5838, "first token, turn 1");
  ExpectNear(static_cast<double>(report.from_host), 886, "turns from the host");
  EXPECT_EQ(report.recomputed, 0);
}

}  // namespace
}  // namespace ringside
