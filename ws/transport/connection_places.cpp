#include "ws/transport/connection_places.h"

#include <algorithm>
#include <utility>

namespace ringside {

void ConnectionPlaces::RemoveLocked(uint64_t place) {
  const auto at = places_.find(place);
  if (at == places_.end()) return;
  const auto owner = owners_.find(at->second.owner);
  owner->second.idle.erase(at->second.idle_since);
  if (--owner->second.places == 0) owners_.erase(owner);
  places_.erase(at);
}

ConnectionPlaces::Owners::iterator ConnectionPlaces::LargestLocked(int64_t more_than) {
  auto largest = owners_.end();
  for (auto at = owners_.begin(); at != owners_.end(); ++at) {
    if (at->second.idle.empty() || at->second.places <= more_than) continue;
    if (largest == owners_.end() || at->second.places > largest->second.places) largest = at;
  }
  return largest;
}

std::function<void()> ConnectionPlaces::EvictLocked(Owner& owner) {
  const uint64_t place = owner.idle.begin()->second;
  std::function<void()> evict = std::move(places_.at(place).evict);
  RemoveLocked(place);
  ++evicted_;
  return evict;
}

ConnectionPlaces::Verdict ConnectionPlaces::Take(const std::string& owner, uint64_t* place) {
  const int64_t most = most_of_ ? std::min(most_of_(owner), most_) : most_;
  std::function<void()> evict;
  {
    std::lock_guard lock(mutex_);
    if (const auto held = places_.find(*place); held != places_.end() && held->second.owner == owner) {
      return Verdict::kTaken;
    }
    RemoveLocked(std::exchange(*place, 0));
    const auto own = owners_.find(owner);
    const int64_t places = own == owners_.end() ? 0 : own->second.places;
    if (places >= most) {
      if (places == 0 || own->second.idle.empty()) return most < most_ ? Verdict::kOwnerFull : Verdict::kFull;
      evict = EvictLocked(own->second);
    } else if (static_cast<int64_t>(places_.size()) >= most_) {
      // Two more than the newcomer's owner: otherwise the two would take the place from each other in turn.
      auto victim = LargestLocked(places + 1);
      if (victim == owners_.end() && places > 0 && !own->second.idle.empty()) victim = own;
      if (victim == owners_.end()) return Verdict::kFull;
      evict = EvictLocked(victim->second);
    }
    *place = ++last_place_;
    places_[*place].owner = owner;
    ++owners_[owner].places;
  }
  if (evict) evict();
  return Verdict::kTaken;
}

void ConnectionPlaces::GiveBack(uint64_t place) {
  std::function<void()> evict;  // destroyed without the lock: it may own what calls back here
  std::lock_guard lock(mutex_);
  const auto at = places_.find(place);
  if (at == places_.end()) return;
  evict = std::move(at->second.evict);
  RemoveLocked(place);
}

void ConnectionPlaces::SetIdle(uint64_t place, std::function<void()> evict) {
  std::lock_guard lock(mutex_);
  const auto at = places_.find(place);
  if (at == places_.end() || at->second.idle_since != 0) return;
  at->second.idle_since = ++events_;
  at->second.evict = std::move(evict);
  owners_.at(at->second.owner).idle[at->second.idle_since] = place;
}

bool ConnectionPlaces::SetBusy(uint64_t place) {
  std::function<void()> evict;  // as in GiveBack
  std::lock_guard lock(mutex_);
  const auto at = places_.find(place);
  if (at == places_.end()) return false;
  owners_.at(at->second.owner).idle.erase(std::exchange(at->second.idle_since, 0));
  evict = std::move(at->second.evict);
  return true;
}

int64_t ConnectionPlaces::taken() const {
  std::lock_guard lock(mutex_);
  return static_cast<int64_t>(places_.size());
}

int64_t ConnectionPlaces::taken_by(const std::string& owner) const {
  std::lock_guard lock(mutex_);
  const auto at = owners_.find(owner);
  return at == owners_.end() ? 0 : at->second.places;
}

uint64_t ConnectionPlaces::evicted() const {
  std::lock_guard lock(mutex_);
  return evicted_;
}

}  // namespace ringside
