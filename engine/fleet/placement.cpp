#include "engine/fleet/placement.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace ringside {
namespace {

// Loads fluctuate by chance. An engine counts as overloaded if it has this many turns above the mean, and is above it
// by three standard deviations of the expected fluctuation.
constexpr int64_t kDrift = 4, kDeviations = 3;

}  // namespace

const Placement::Pin* Placement::Find(TimelineId timeline) const {
  const auto found = pins_.find(timeline);
  return found == pins_.end() ? nullptr : &found->second;
}

size_t Placement::LeastLoaded(const std::vector<Load>& loads) const {
  const auto load = [&](size_t i) {
    const Engine& engine = engines_[i];
    return std::tuple(engine.failed, engine.drains, loads[i].refuses, engine.turns, loads[i].used);
  };
  size_t best = 0;
  for (size_t i = 1; i < engines_.size(); ++i) {
    if (load(i) < load(best)) best = i;
  }
  return best;
}

void Placement::Begin(TimelineId timeline, size_t engine, const std::string& owner) {
  if (const Pin* before = Find(timeline); before != nullptr && before->engine != engine) Forget(timeline);
  Pin& pin = pins_[timeline];
  pin.engine = engine;
  SetIdle(timeline, pin, false);
  pin.owner = owner;
  ++pin.turns;
  ++engines_[engine].turns;
}

void Placement::End(TimelineId timeline, size_t engine) {
  --engines_[engine].turns;
  const auto found = pins_.find(timeline);
  if (found == pins_.end() || found->second.engine != engine || found->second.turns == 0)
    return;  // forgotten meanwhile
  if (--found->second.turns == 0 && !found->second.owner.empty()) SetIdle(timeline, found->second, true);
}

void Placement::SetIdle(TimelineId timeline, Pin& pin, bool idle) {
  std::map<uint64_t, TimelineId>& all = engines_[pin.engine].idle;
  if (pin.idle != 0) all.erase(std::exchange(pin.idle, 0));
  if (idle) all.emplace(pin.idle = ++last_idle_, timeline);
}

void Placement::Forget(TimelineId timeline) {
  const auto found = pins_.find(timeline);
  if (found == pins_.end()) return;
  SetIdle(timeline, found->second, false);
  pins_.erase(found);
}

size_t Placement::CountToShed(size_t engine) const {
  if (engines_[engine].drains) return engines_[engine].idle.size();
  int64_t serving = 0, all = 0;
  for (const Engine& other : engines_) {
    if (other.drains) continue;
    ++serving;
    all += other.turns;
  }
  // With random placement each turn is here with probability 1 / serving: the variance is all * (serving - 1) /
  // serving^2.
  const int64_t more = serving * engines_[engine].turns - all;
  const bool drifted = more >= serving * kDrift && more * more >= kDeviations * kDeviations * all * (serving - 1);
  return drifted && serving > 1 ? 1 : 0;
}

std::optional<TimelineId> Placement::PopIdle(size_t engine) {
  const auto& idle = engines_[engine].idle;
  if (idle.empty()) return std::nullopt;
  const TimelineId timeline = idle.begin()->second;
  Forget(timeline);
  return timeline;
}

bool Placement::OthersServe(size_t engine) const {
  bool others = false;
  for (size_t i = 0; i < engines_.size(); ++i) others = others || (i != engine && !engines_[i].drains);
  return others;
}

size_t Placement::conversations(size_t engine) const {
  return static_cast<size_t>(
      std::ranges::count_if(pins_, [&](const auto& pin) { return pin.second.engine == engine; }));
}

}  // namespace ringside
