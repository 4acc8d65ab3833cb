// Servers, zones and databases of the cluster simulation that fail, stop, return or join; and bursts.
#include <algorithm>

#include "tools/sim/cluster/simulated_cluster.h"

namespace ringside {

void SimulatedCluster::AddServers(int64_t count) {
  const int64_t per_cell = options_.store.cell_servers;
  const auto first_cell = static_cast<int64_t>(cells_.size());
  for (int64_t i = 0; i < count; ++i) {
    const bool is_small = people_.Random() < options_.server.small_share;
    const double size = is_small ? options_.server.small_size : 1;
    const auto cell = static_cast<size_t>(first_cell + i / per_cell);
    if (cell == cells_.size()) cells_.emplace_back();
    const double misjudgement = 1 + options_.misjudgement * (2 * people_.Random() - 1);
    Server& server = servers_.emplace_back(WaitLimit(options_.wait_limit_s));
    server.misjudgement = misjudgement, server.size = size;
    tiers_.Add(size);
    proxy_.Add(static_cast<uint32_t>(cell), options_.proxy.weighted ? size : 1);
  }
  proxy_.Sort();
}

void SimulatedCluster::Down(uint32_t server, double claimable_s, double back_s) {
  Server& at = servers_[server];
  at.up = false;
  ++at.epoch;
  at.running = 0;
  at.prompts.clear();
  at.prompts_free_s = now_s_;
  at.claimable_s = claimable_s;
  cells_[proxy_.cell(server)].back_s = back_s;
  proxy_.CloseAll(server);
  tiers_.LoseMemory(server);
  if (back_s < 1e9) events_.Push({back_s, server, Event::kUp});
}

void SimulatedCluster::Crash(uint32_t server, double back_s) {
  if (!servers_[server].up) return;
  Down(server, now_s_ + options_.store.lease_s, back_s);
  servers_[server].noticed_s = now_s_ + options_.proxy.check_s;
  After(options_.proxy.check_s, server, Event::kNoticed);
}

void SimulatedCluster::Upgrade() {
  const uint32_t server = next_upgrade_++;
  if (server >= servers_.size()) return;
  After(options_.events.upgrade_every_s, 0, Event::kUpgrade);
  if (!servers_[server].up) return;
  proxy_.SetUp(server, false, now_s_);  // it is not ready, but ends its turns
  cells_[proxy_.cell(server)].back_s = now_s_ + options_.server.save_s + options_.server.restart_s;
  After(options_.server.save_s, server, Event::kStopped);
}

void SimulatedCluster::Stopped(uint32_t server) {
  if (!servers_[server].up) return;
  tiers_.Save(server);
  Down(server, now_s_, now_s_ + options_.server.restart_s);
}

void SimulatedCluster::Up(uint32_t server) {
  Server& at = servers_[server];
  at.up = true;
  at.claimable_s = std::min(at.claimable_s, now_s_);  // it releases them, or continues them itself
  proxy_.SetUp(server, true, now_s_);
}

void SimulatedCluster::Fail() {
  Crash(static_cast<uint32_t>(people_.RandomBits() % servers_.size()), now_s_ + options_.server.restart_s);
  After(options_.events.failure_every_s, 0, Event::kFail);
}

void SimulatedCluster::LoseZone() {
  const EventOptions& events = options_.events;
  for (uint32_t server = 0; server < servers_.size(); server += 3) {
    Crash(server, options_.warm_up_s + events.zone_back_s);
  }
}

void SimulatedCluster::PauseDatabases() {
  const auto stride = static_cast<size_t>(std::max(1.0, 1 / options_.events.database_share));
  for (size_t cell = 0; cell < cells_.size(); cell += stride) {
    cells_[cell].database.Pause(now_s_, now_s_ + options_.events.database_away_s);
  }
}

void SimulatedCluster::Grow() {
  AddServers(static_cast<int64_t>(options_.events.added_share * static_cast<double>(options_.servers)));
  if (options_.events.forgets_routes) proxy_.Forget();
}

void SimulatedCluster::Burst() {
  for (uint32_t id = 0; id < people_.all().size(); ++id) {
    if (people_.all()[id].asks || people_.Random() >= options_.people.burst_share) continue;
    Schedule(id, now_s_ + options_.people.burst_s * people_.Random(), Event::kTurn);
  }
  After(options_.people.burst_every_s, 0, Event::kBurst);
}

}  // namespace ringside
