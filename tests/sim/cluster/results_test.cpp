// The recorded results, from which docs/SCALING.md has its tables, are those of the simulation.
#include "tools/sim/cluster/results.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "tools/sim/cluster/cluster.h"

namespace ringside {
namespace {

TEST(ClusterResults, EveryScenarioIsRecorded) {
  std::ifstream file(ResultsFile());
  const auto recorded = nlohmann::ordered_json::parse(file);
  std::map<std::string, size_t> count;
  for (const Scenario& scenario : Scenarios()) {
    ASSERT_TRUE(recorded.contains(scenario.group)) << "run cluster_sim --write";
    const auto& result = recorded[scenario.group].at(count[scenario.group]++);
    EXPECT_EQ(result["name"], scenario.name);
    EXPECT_EQ(result["servers"], scenario.options.servers);
    EXPECT_EQ(result["conversations"], scenario.options.conversations_per_server);
    EXPECT_EQ(result["phases"].size(), scenario.options.phase_ends_s.size() + 1);
  }
  for (const auto& [group, results] : recorded.items()) EXPECT_EQ(results.size(), count[group]) << group;
}

// One scenario is simulated again. Figures may differ slightly between compilers' mathematical functions.
TEST(ClusterResults, RecordedFiguresAreTheSimulations) {
  std::ifstream file(ResultsFile());
  const auto recorded = nlohmann::ordered_json::parse(file)["check"].at(0);
  const auto cost = CostModel::Read(CostFile("llama-3-8b.h200"));
  ASSERT_TRUE(cost.ok()) << cost.status().ToString();
  const Scenario scenario = Scenarios().back();
  ASSERT_EQ(scenario.group, "check");
  const auto simulated = ResultOf(scenario, SimulateCluster(*cost, scenario.options));
  for (size_t phase = 0; phase < 3; ++phase) {
    for (const char* figure :
         {"turns", "from_slot", "from_host", "claimed", "first_p50", "first_p99", "prompt_share"}) {
      const double value = recorded["phases"][phase][figure];
      EXPECT_NEAR(simulated["phases"][phase][figure], value, 0.05 * value) << phase << " " << figure;
    }
  }
}

}  // namespace
}  // namespace ringside
