// Simulates many servers behind a proxy, scenario by scenario, and prints a line for each.
//   cluster_sim [--group fill|routes|events|zone|store|failover|bursts|check] [--seed 7] [--write]
// --write records the figures of the groups that ran; scripts/scaling.py --write makes the tables of docs/SCALING.md.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "tools/bench/must_have.h"
#include "tools/sim/cluster/cluster.h"
#include "tools/sim/cluster/results.h"
#include "tools/sim/cluster/scenarios.h"

namespace ringside {
namespace {

void Print(const Scenario& scenario, const ClusterReport& report) {
  fmt::print("{}: {}\n", scenario.group, scenario.name);
  for (const PhaseReport& r : report.phases) {
    fmt::print(
        "  {:.0f} s: p50 {:.0f}, p99 {:.0f}, p99.9 {:.0f} ms, asked p99 {:.0f}; refused {}, gave up {}, cut {}, not "
        "found {}; fullest {:.2f}, prompts {:.0f} %, worst {:.0f} %, database {:.0f} %\n",
        r.seconds, r.first_p50, r.first_p99, r.first_p999, r.asked_p99, r.refused, r.gave_up, r.cut, r.not_found,
        r.fullest, 100 * r.prompt_share, 100 * r.busiest, 100 * r.database_share);
  }
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  std::vector<std::string> groups;
  uint64_t seed = ClusterOptions().seed;
  bool writes = false;
  CLI::App app("Many servers behind a proxy.");
  app.add_option("--group", groups, "Scenarios to run; all without it");
  app.add_option("--seed", seed);
  app.add_flag("--write", writes, "Record the results");
  CLI11_PARSE(app, argc, argv);
  const CostModel cost = MustHave(CostModel::Read(CostFile("llama-3-8b.h200")));
  nlohmann::ordered_json results;
  for (Scenario& scenario : Scenarios()) {
    if (!groups.empty() && std::ranges::find(groups, scenario.group) == groups.end()) continue;
    scenario.options.seed = seed;
    const ClusterReport report = SimulateCluster(cost, scenario.options);
    Print(scenario, report);
    results[scenario.group].push_back(ResultOf(scenario, report));
  }
  if (!writes) return 0;
  nlohmann::ordered_json all = nlohmann::ordered_json::object();
  std::ifstream recorded(ResultsFile());
  if (recorded) all = nlohmann::ordered_json::parse(recorded);
  all.update(results);
  std::ofstream(ResultsFile()) << all.dump(1) << '\n';
  return 0;
}

}  // namespace
}  // namespace ringside

int main(int argc, char** argv) { return ringside::Main(argc, argv); }
