#include "tools/sim/cluster/scenarios.h"

#include <fmt/format.h>

namespace ringside {
namespace {

using Options = ClusterOptions;
using Set = void (*)(Options&);

constexpr double kStrictS = 0.15, kUsualS = 2;  // limits of the predicted wait

Options Usual(double conversations) {
  Options options;
  options.servers = 96, options.conversations_per_server = conversations;
  return options;
}

/// Today's server: a store of its own, in RocksDB.
void Private(Options& o) {
  o.store = {.cell_servers = 1, .least_s = 0.001, .most_s = 0.003, .commits_per_s = 1e9, .appends_per_s = 1e9};
}
/// A third of the servers is lost after a minute, and returns five minutes later.
void LoseZone(Options& o) {
  o.events.zone_lost_s = 60, o.events.zone_back_s = 360;
  o.phase_ends_s = {60, 360}, o.measured_s = 660;
}
void LoseDatabases(Options& o) {
  o.events.database_lost_s = 60, o.events.database_share = 0.25;
  o.phase_ends_s = {60, 90}, o.measured_s = 300;
}
void Fail(Options& o) { o.events.failure_every_s = 1e4 / static_cast<double>(o.servers); }
void Upgrade(Options& o) { o.events.upgrade_every_s = 2e3 / static_cast<double>(o.servers); }
void Million(Options& o) { o.servers = 1000; }

struct Row {
  const char *group, *name;
  double conversations;
  std::vector<Set> changes;
};

std::vector<Row> Rows() {
  const Set strict = [](Options& o) { o.wait_limit_s = kStrictS; };
  const Set usual = [](Options& o) { o.wait_limit_s = kUsualS; };
  const Set plain = [](Options& o) { o.proxy.bound = 0; };
  const Set keys = [](Options& o) { o.people.key_alpha = 1.2; };
  const Set keys_30 = [](Options& o) { o.people.key_most = 30; };
  const Set keys_300 = [](Options& o) { o.people.key_most = 300; };
  const Set keys_1000 = [](Options& o) { o.people.key_most = 1000; };
  const Set small = [](Options& o) { o.server.small_share = 0.25; };
  const Set equal_weights = [](Options& o) { o.proxy.weighted = false; };
  const Set sockets = [](Options& o) { o.proxy.websockets = true; };
  const Set rehashed = [](Options& o) { o.proxy.stick = false; };
  const Set added = [](Options& o) { o.events.added_s = 0; };
  const Set forgets = [](Options& o) { o.events.forgets_routes = true; };
  const Set blind = [](Options& o) { o.people.honor_retry_after = false; };
  const Set tokens = [](Options& o) { o.store.commits_tokens = true; };
  const Set cell_32 = [](Options& o) { o.store.cell_servers = 32; };
  const Set cell_48 = [](Options& o) { o.store.cell_servers = 48; };
  const Set burst = [](Options& o) { o.people.burst_every_s = 120, o.people.burst_share = 0.3; };
  const Set all_at_once = [](Options& o) {
    o.people.burst_every_s = 120, o.people.burst_share = 1, o.people.burst_s = 2;
  };
  return {
      {"fill", "700", 700, {}},
      {"fill", "1,000", 1000, {}},
      {"fill", "1,200", 1200, {}},
      {"fill", "1,300", 1300, {}},
      {"fill", "1,400", 1400, {}},
      {"fill", "1,500", 1500, {}},
      {"fill", "1,600", 1600, {}},
      {"fill", "1,000 on 1,000 servers", 1000, {Million}},
      {"routes", "a key per person", 1000, {}},
      {"routes", "as above, WebSockets", 1000, {sockets}},
      {"routes", "as above, no `hash-balance-factor`", 1000, {plain}},
      {"routes", "as above, no `stick`", 1000, {rehashed}},
      {"routes", "keys with up to 30 conversations", 1000, {keys, keys_30}},
      {"routes", "up to 300", 1000, {keys, keys_300}},
      {"routes", "up to 1,000", 1000, {keys, keys_1000}},
      {"routes", "a quarter of the servers half as large, `weight` in proportion", 1000, {small}},
      {"routes", "as above, equal weights", 1000, {small, equal_weights}},
      {"events", "nothing", 700, {}},
      {"events", "one server in 10,000 fails per second; private stores", 700, {Private, Fail}},
      {"events", "as above; cells", 700, {Fail}},
      {"events", "rolling upgrade, one in 2,000 per second; private stores", 700, {Private, Upgrade}},
      {"events", "as above; cells", 700, {Upgrade}},
      {"events", "a tenth more servers; private stores", 700, {Private, added}},
      {"events", "as above, and the proxy loses its routes", 700, {Private, added, forgets}},
      {"events", "a tenth more servers; cells", 700, {added}},
      {"events", "as above, and the proxy loses its routes", 700, {added, forgets}},
      {"zone", "700", 700, {LoseZone}},
      {"zone", "700, limit 150 ms", 700, {LoseZone, strict}},
      {"zone", "1,000", 1000, {LoseZone}},
      {"zone", "1,000, limit 2 s", 1000, {LoseZone, usual}},
      {"zone", "1,000, limit 150 ms", 1000, {LoseZone, strict}},
      {"zone", "1,000, limit 150 ms, clients ignore Retry-After", 1000, {LoseZone, strict, blind}},
      {"zone", "1,000, no `hash-balance-factor`", 1000, {LoseZone, plain}},
      {"zone", "1,000, no `hash-balance-factor`, limit 150 ms", 1000, {LoseZone, plain, strict}},
      {"zone", "1,200", 1200, {LoseZone}},
      {"zone", "1,200, limit 150 ms", 1200, {LoseZone, strict}},
      {"zone", "1,000 on 1,000 servers", 1000, {LoseZone, Million}},
      {"zone", "1,000 on 1,000 servers, limit 150 ms", 1000, {LoseZone, Million, strict}},
      {"store", "`turn`", 1000, {}},
      {"store", "`token`", 1000, {tokens}},
      {"store", "`turn`, cells of 32", 1000, {cell_32}},
      {"store", "`turn`, cells of 48", 1000, {cell_48}},
      {"failover", "no limit", 1000, {LoseDatabases}},
      {"failover", "limit 2 s", 1000, {LoseDatabases, usual}},
      {"bursts", "three in ten, within 5 s", 1000, {burst}},
      {"bursts", "as above, limit 150 ms", 1000, {burst, strict}},
      {"bursts", "everybody, within 2 s", 1000, {all_at_once}},
      {"bursts", "as above, limit 150 ms", 1000, {all_at_once, strict}},
      {"bursts", "as above, limit 2 s", 1000, {all_at_once, usual}},
      {"check",
       "48 servers, a zone lost, limit 150 ms",
       1000,
       {[](Options& o) { o.servers = 48; }, LoseZone, [](Options& o) { o.warm_up_s = 700; }, strict}},
  };
}

}  // namespace

std::vector<Scenario> Scenarios() {
  std::vector<Scenario> scenarios;
  for (const auto& [group, name, conversations, changes] : Rows()) {
    Options options = Usual(conversations);
    for (const Set change : changes) change(options);
    scenarios.push_back({group, name, options});
  }
  return scenarios;
}

}  // namespace ringside
