#include "tools/sim/cluster/proxy.h"

#include <cmath>

#include "base/check.h"

namespace ringside {

void Proxy::Add(uint32_t cell, double weight) {
  CHECK(cell <= cells_.size());
  if (cell == cells_.size()) cells_.emplace_back();
  const auto server = static_cast<uint32_t>(servers_.size());
  servers_.push_back({.cell = cell, .weight = weight});
  cells_[cell].ring.Add(server, std::llround(static_cast<double>(options_.points) * weight));
  cells_[cell].weight += weight;
  weight_ += weight;
}

void Proxy::Sort() {
  cell_ring_ = {};
  for (uint32_t cell = 0; cell < cells_.size(); ++cell) {
    cells_[cell].ring.Sort();
    cell_ring_.Add(cell, std::llround(static_cast<double>(options_.points) * cells_[cell].weight));
  }
  cell_ring_.Sort();
}

// HAProxy's rule, over all servers that are up.
bool Proxy::IsFull(uint32_t server) const {
  const Server& at = servers_[server];
  const double mean = static_cast<double>(open_ + 1) * at.weight / weight_;
  return options_.bound > 0 && static_cast<double>(at.open) >= std::ceil(options_.bound * mean);
}

uint32_t Proxy::FindIn(const Cell& cell, uint64_t key, double now_s) const {
  const auto is_up = [&](uint32_t s, uint32_t point) {
    const Server& at = servers_[s];
    if (!at.up || options_.slow_start_s == 0) return at.up;
    const double share = (now_s - at.up_since_s) / options_.slow_start_s;
    return point < std::max(1.0, share * static_cast<double>(options_.points) * at.weight);
  };
  const auto accepts = [&](uint32_t s, uint32_t point) { return is_up(s, point) && !IsFull(s); };
  const auto found = cell.ring.Find(key, accepts);
  return found ? *found : cell.ring.Find(key, is_up).value_or(kNone);
}

uint32_t Proxy::Find(Route& route, double now_s) {
  const bool is_known = route.version == version_;
  if (!is_known) {
    const auto accepts = [&](uint32_t c, uint32_t) {
      return cells_[c].weight > 0 && FindIn(cells_[c], route.key, now_s) != kNone;
    };
    // A cell of one server is bounded like a server.
    const auto has_room = [&](uint32_t c, uint32_t p) {
      return accepts(c, p) && !IsFull(FindIn(cells_[c], route.key, now_s));
    };
    const auto found = cell_ring_.Find(route.key, has_room);
    route.cell = found ? *found : cell_ring_.Find(route.key, accepts).value_or(kNone);
    if (route.cell == kNone) return kNone;
    route.version = version_, route.server = kNone;
  }
  if (options_.stick && route.server != kNone && servers_[route.server].up) return route.server;
  const uint32_t server = FindIn(cells_[route.cell], HashOf(route.key), now_s);
  if (server != kNone) route.server = server;
  return server;
}

void Proxy::SetUp(uint32_t server, bool up, double now_s) {
  Server& at = servers_[server];
  if (at.up == up) return;
  const double weight = up ? at.weight : -at.weight;
  cells_[at.cell].weight += weight;
  weight_ += weight;
  at.up = up;
  at.up_since_s = now_s;
}

}  // namespace ringside
