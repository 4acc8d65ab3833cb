// Simulates conversations on many servers behind a proxy with consistent hashing, scenario by scenario: the tables of
// docs/SCALING.md.
//   cluster_sim [--servers 1000] [--seed 7] [--load 1300 1400 ...] [--events]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tools/bench/must_have.h"
#include "tools/sim/cluster/cluster.h"

namespace ringside {
namespace {

void Print(const std::string& name, const ClusterOptions& options, const ClusterReport& r) {
  const auto share = [&](int64_t turns) {
    return 100 * static_cast<double>(turns) / static_cast<double>(std::max<int64_t>(r.turns, 1));
  };
  const double mean = 1.0 / static_cast<double>(options.servers);
  fmt::print(
      "| {} | {:.2f} | {:.1f} / {:.1f} / {:.1f} / {:.1f} / {:.2f} | {:.0f}, {:.0f} | {:.0f}, {:.0f}, {:.0f} | {:.2f}, "
      "{:.2f} | {:.2f}, {:.2f} | {:.0f}, {:.0f} % | {} / {} / {} |\n",
      name, r.fullest, share(r.from_slot), share(r.from_host), share(r.from_disk), share(r.from_network),
      share(r.recomputed), r.recomputed_per_s * mean, r.recomputed_peak * mean, r.first_p50, r.first_p99, r.first_p999,
      r.network_per_s * 1e-9, r.network_peak * 1e-9, r.disk_per_s * 1e-9, r.disk_peak * 1e-9, 100 * r.prompt_share,
      100 * r.busiest, r.cut, r.refused, r.not_found);
  std::fflush(stdout);
}

void Head(const char* what) {
  fmt::print(
      "\n| {} | fullest server, of the mean | slot / host / disk / network / computed anew, % of turns | tokens "
      "computed "
      "anew, a server and second: mean, worst 10 s | first token, ms: p50, p99, p99.9 | network, GB/s in all: mean, "
      "worst | disks likewise | prompts, of a server's time: mean, worst server | turns cut / refused / not found |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
      what);
}

/// Increasing numbers of conversations, with both kinds of hashing.
void Load(const CostModel& cost, const ClusterOptions& usual, const std::vector<double>& loads) {
  if (!loads.empty()) Head("conversations a server");
  for (const double load : loads) {
    for (const double bound : {0.0, 1.1}) {
      ClusterOptions options = usual;
      options.conversations_per_server = load, options.bound = bound;
      Print(fmt::format("{:.0f}, {}", load, bound > 0 ? "bounded" : "plain"), options, SimulateCluster(cost, options));
    }
  }
}

/// Server events, with today's architecture and with a shared store.
void Events(const CostModel& cost, const ClusterOptions& usual) {
  struct Event {
    const char* name;
    void (*set)(ClusterOptions& options);
  };
  constexpr auto kElsewhere = [](ClusterOptions&) {};
  constexpr auto kWaits = [](ClusterOptions& o) { o.redispatches = false; };
  constexpr auto kRemembers = [](ClusterOptions& o) { o.redispatches = false, o.remembers = true; };
  constexpr auto kShared = [](ClusterOptions& o) { o.shared_store = true, o.remembers = true; };
  const std::pair<Event, std::vector<Event>> kRows[] = {
      {{"nothing", [](ClusterOptions&) {}}, {{"", kElsewhere}}},
      {{"one in 10,000 fails each second",
        [](ClusterOptions& o) { o.failure_every_s = 1e4 / static_cast<double>(o.servers); }},
       {{"; sent elsewhere", kElsewhere}, {"; waits", kWaits}, {"; shared store", kShared}}},
      {{"an upgrade, one in 2,000 stops each second",
        [](ClusterOptions& o) { o.upgrade_every_s = 2e3 / static_cast<double>(o.servers); }},
       {{"; sent elsewhere", kElsewhere}, {"; waits", kWaits}, {"; shared store", kShared}}},
      {{"a twenty-fifth is lost", [](ClusterOptions& o) { o.lost = o.servers / 25; }},
       {{"; sent elsewhere", kElsewhere}, {"; shared store", kShared}}},
      {{"a tenth more", [](ClusterOptions& o) { o.added = o.servers / 10; }},
       {{"; hashed anew", kElsewhere}, {"; remembered", kRemembers}}},
  };
  Head("what happens; the proxy");
  for (const auto& [event, proxies] : kRows) {
    for (const Event& proxy : proxies) {
      ClusterOptions options = usual;
      event.set(options);
      proxy.set(options);
      Print(std::string(event.name) + proxy.name, options, SimulateCluster(cost, options));
    }
  }
}

int Main(int argc, char** argv) {
  ClusterOptions options;
  std::string costs = "llama-3-8b.h200";
  std::vector<double> loads;
  bool events = false;
  CLI::App app("Conversations on many servers behind a proxy with consistent hashing.");
  app.add_option("--costs", costs, "A file of tools/sim/costs, without .json");
  app.add_option("--servers", options.servers)->check(CLI::PositiveNumber);
  app.add_option("--conversations", options.conversations_per_server, "A server, for --events")
      ->check(CLI::PositiveNumber);
  app.add_option("--warm-up-s", options.warm_up_s);
  app.add_option("--measured-s", options.measured_s);
  app.add_option("--seed", options.seed);
  app.add_option("--load", loads, "So many conversations a server, with the two kinds of hashing");
  app.add_flag("--events", events, "Failures, upgrades, servers that go and come");
  CLI11_PARSE(app, argc, argv);
  const CostModel cost = MustHave(CostModel::Read(CostFile(costs)));
  Load(cost, options, loads);
  if (events) Events(cost, options);
  return 0;
}

}  // namespace
}  // namespace ringside

int main(int argc, char** argv) { return ringside::Main(argc, argv); }
