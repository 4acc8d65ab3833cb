// Replays a load on a simulated device and prints the results seen by its users. Simulated seconds take milliseconds.
//   engine_sim --costs llama-3-8b.h200 --conversations 128 --turns 4 [--arrivals together|spread|poisson|bursts|crowd]
//              [--lengths fixed|sharegpt|long] [--pause-ms 10000] [--json] -- --slots 160 --memory-len 4096 ...
//   engine_sim --scenario mixed|agents|requests [--seconds 30] [--per-second 16] -- --slots 300 --memory-len 49152 ...
// The arguments after -- are server settings.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "tools/bench/must_have.h"
#include "tools/sim/report.h"

namespace ringside {
namespace {

int Main(int argc, char** argv) {
  std::string costs = "llama-3-8b.h200";
  LoadOptions load;
  ClientCosts client = kMeasuredClient;
  bool json = false;
  std::vector<std::string> settings;
  CLI::App app("Replays a load on the engine over a simulated device.");
  app.add_option("--costs", costs, "A file of tools/sim/costs, without .json");
  app.add_option("--conversations", load.conversations)->check(CLI::PositiveNumber);
  app.add_option("--turns", load.turns)->check(CLI::PositiveNumber);
  app.add_option("--users", load.users)->check(CLI::PositiveNumber);
  app.add_option("--arrivals", load.arrivals, "together, spread, poisson, bursts or crowd");
  app.add_option("--spread-ms", load.spread_ms,
                 "Over what time they begin; between two bursts; until the crowd's last");
  app.add_option("--per-second", load.per_second, "Conversations that begin, on average")->check(CLI::PositiveNumber);
  app.add_option("--burst", load.burst, "Conversations that begin at once")->check(CLI::PositiveNumber);
  app.add_option("--pause-ms", load.pause_ms, "Between two turns, on average");
  app.add_option("--lengths", load.lengths, "fixed, sharegpt or long");
  app.add_option("--first", load.first, "Tokens of the first question")->check(CLI::PositiveNumber);
  app.add_option("--add", load.add, "Tokens of the others")->check(CLI::PositiveNumber);
  app.add_option("--write", load.write, "Tokens of an answer")->check(CLI::PositiveNumber);
  app.add_option("--long-first", load.long_first)->check(CLI::PositiveNumber);
  app.add_option("--seed", load.seed);
  app.add_option("--scenario", load.scenario, "mixed, agents or requests, in place of the other lengths and arrivals");
  app.add_option("--seconds", load.seconds, "Time in which a scenario starts turns")->check(CLI::PositiveNumber);
  app.add_option("--to-engine-ms", client.to_engine, "From the client to the engine, for each turn");
  app.add_option("--to-client-ms", client.to_client, "And back, for each token");
  app.add_option("--write-ms", client.write, "On the client's thread, for each turn");
  app.add_option("--read-ms", client.read, "And for each token");
  app.add_flag("--json", json);
  app.add_option("settings", settings, "Of the server");
  CLI11_PARSE(app, argc, argv);
  const CostModel cost = MustHave(CostModel::Read(CostFile(costs)));
  const ServerConfig config = MustHave(SimulatedServer(settings));
  const SimReport report = ReportOf(MustHave(Simulate(cost, config, client, MustHave(PlanLoad(load)))));
  fmt::print("{}\n", json ? Json(report) : Table(report));
  return 0;
}

}  // namespace
}  // namespace ringside

int main(int argc, char** argv) { return ringside::Main(argc, argv); }
