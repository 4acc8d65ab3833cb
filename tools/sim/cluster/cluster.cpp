#include "tools/sim/cluster/cluster.h"

#include <algorithm>
#include <utility>

#include "tools/sim/cluster/simulated_cluster.h"

namespace ringside {

SimulatedCluster::SimulatedCluster(const CostModel& cost, const ClusterOptions& options)
    : cost_(cost),
      options_(options),
      row_s_(cost.StepMs({.rows = 2048, .prompts = 1}) / 2048 * 1e-3),
      product_s_(cost.product * 1e-3),
      people_(options.people,
              static_cast<size_t>(options.conversations_per_server * static_cast<double>(options.servers)),
              options.seed),
      proxy_(options.proxy),
      tiers_(options.server, people_.all()) {
  AddServers(options.servers);
  const double life_s = options.people.pause_s * options.people.turns;
  for (uint32_t id = 0; id < people_.all().size(); ++id) Schedule(id, people_.Random() * life_s, Event::kTurn);
  report_.phases.emplace_back();  // the warm-up
  now_s_ = options.warm_up_s;
  const EventOptions& events = options.events;
  After(0, 0, Event::kPhase);
  for (const double end_s : options.phase_ends_s) After(end_s, 0, Event::kPhase);
  if (events.failure_every_s > 0) After(0, 0, Event::kFail);
  if (events.upgrade_every_s > 0) After(0, 0, Event::kUpgrade);
  if (events.zone_lost_s >= 0) After(events.zone_lost_s, 0, Event::kZone);
  if (events.database_lost_s >= 0) After(events.database_lost_s, 0, Event::kDatabase);
  if (events.added_s >= 0) After(events.added_s, 0, Event::kAdd);
  if (options.people.burst_every_s > 0) After(options.people.burst_every_s, 0, Event::kBurst);
  now_s_ = 0;
}

void SimulatedCluster::Schedule(uint32_t id, double at_s, Event::Kind kind) {
  people_.all()[id].due_s = at_s;
  events_.Push({at_s, id, kind});
}

void SimulatedCluster::Handle(const Event& event) {
  const bool is_void = event.kind <= Event::kEnd && people_.all()[event.who].due_s != event.at_s;
  switch (event.kind) {
    case Event::kTurn:
      return is_void ? void() : Turn(event.who);
    case Event::kEnd:
      return is_void ? void() : End(event.who);
    case Event::kFail:
      return Fail();
    case Event::kUpgrade:
      return Upgrade();
    case Event::kStopped:
      return Stopped(event.who);
    case Event::kNoticed:
      return proxy_.SetUp(event.who, servers_[event.who].up, now_s_);
    case Event::kUp:
      return Up(event.who);
    case Event::kZone:
      return LoseZone();
    case Event::kDatabase:
      return PauseDatabases();
    case Event::kAdd:
      return Grow();
    case Event::kBurst:
      return Burst();
    case Event::kPhase:
      EndPhase();
      report_.phases.emplace_back();
  }
}

void SimulatedCluster::EndPhase() {
  PhaseReport& r = phase();
  r.seconds = std::max(now_s_ - phase_began_s_, 1e-9);
  double up = 0, most = 0, size = 0;
  for (Server& server : servers_) {
    up += server.up, size += server.size;
    most = std::max(most, static_cast<double>(server.conversations) / server.size);
    r.prompt_share += server.computing_s / r.seconds;
    r.busiest = std::max(r.busiest, server.computing_s / r.seconds);
    server.computing_s = 0;
  }
  r.prompt_share /= std::max(up, 1.0);
  r.fullest = most * size / static_cast<double>(people_.all().size());
  phase_busy_s_.resize(cells_.size());
  for (size_t cell = 0; cell < cells_.size(); ++cell) {
    const double busy = cells_[cell].database.busy_s();
    r.database_share = std::max(r.database_share, (busy - std::exchange(phase_busy_s_[cell], busy)) / r.seconds);
  }
  r.disk_bytes = tiers_.disk_bytes() - std::exchange(phase_disk_bytes_, tiers_.disk_bytes());
  r.first_p50 = first_.At(0.5), r.first_p99 = first_.At(0.99), r.first_p999 = first_.At(0.999);
  r.asked_p99 = asked_.At(0.99), r.asked_p999 = asked_.At(0.999);
  first_ = asked_ = {};
  phase_began_s_ = now_s_;
}

ClusterReport SimulatedCluster::Run() {
  const double end_s = options_.warm_up_s + options_.measured_s;
  for (Event event = events_.Pop(); event.at_s < end_s; event = events_.Pop()) {
    now_s_ = event.at_s;
    Handle(event);
  }
  now_s_ = end_s;
  EndPhase();
  report_.phases.erase(report_.phases.begin());
  report_.conversations = static_cast<int64_t>(people_.all().size());
  for (const Conversation& one : people_.all()) {
    report_.pending += one.asks;
    report_.with_home += one.home != kNone;
    report_.connected += one.is_connected && IsAlive(one);
  }
  for (uint32_t server = 0; server < servers_.size(); ++server) {
    report_.homed += servers_[server].conversations;
    report_.open += proxy_.open(server);
  }
  report_.fullest_memory = tiers_.fullest();
  return report_;
}

ClusterReport SimulateCluster(const CostModel& cost, const ClusterOptions& options) {
  return SimulatedCluster(cost, options).Run();
}

}  // namespace ringside
