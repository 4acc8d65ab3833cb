#include "ws/transport/limits/connection_places.h"

#include <algorithm>
#include <utility>

namespace ringside {

void ConnectionPlaces::RemoveLocked(uint64_t place) {
  const auto at = places_.find(place);
  if (at == places_.end()) return;
  SetStateLocked(at->second, place, State::kBusy);
  const auto owner = owners_.find(at->second.owner);
  if (--owner->second.places == 0) owners_.erase(owner);
  places_.erase(at);
}

void ConnectionPlaces::SetStateLocked(Place& place, uint64_t number, State state) {
  Owner& owner = owners_.at(place.owner);
  owner.idle.erase(place.since);
  owner.waiting.erase(place.since);
  place.state = state;
  place.since = state == State::kBusy ? 0 : ++events_;
  if (state == State::kIdle) owner.idle[place.since] = number;
  if (state == State::kWaiting) {
    owner.waiting[place.since] = number;
    place.waits_since = std::chrono::steady_clock::now();
  }
}

uint64_t ConnectionPlaces::VictimLocked(const Owner& owner, TimePoint now) const {
  if (!owner.idle.empty()) return owner.idle.begin()->second;
  if (owner.waiting.empty()) return 0;
  const uint64_t longest = owner.waiting.begin()->second;
  return places_.at(longest).waits_since + patience_ <= now ? longest : 0;
}

ConnectionPlaces::Owners::iterator ConnectionPlaces::LargestLocked(int64_t more_than, TimePoint now) {
  const auto size = [](const Owner& owner) {
    return std::pair(owner.idle.size() + owner.waiting.size(), owner.places);
  };
  auto largest = owners_.end();
  for (auto at = owners_.begin(); at != owners_.end(); ++at) {
    if (at->second.places <= more_than || VictimLocked(at->second, now) == 0) continue;
    if (largest == owners_.end() || size(at->second) > size(largest->second)) largest = at;
  }
  return largest;
}

std::function<void()> ConnectionPlaces::EvictLocked(uint64_t place) {
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
      evict = EvictLocked(own->second.idle.begin()->second);
    } else if (static_cast<int64_t>(places_.size()) >= most_) {
      // Requires two more connections than the newcomer's owner has; with one more, two owners would evict each other
      // in turn.
      const auto now = std::chrono::steady_clock::now();
      auto victim = LargestLocked(places + 1, now);
      if (victim == owners_.end() && places > 0 && !own->second.idle.empty()) victim = own;
      if (victim == owners_.end()) return Verdict::kFull;
      evict = EvictLocked(VictimLocked(victim->second, now));
    }
    *place = ++last_place_;
    places_[*place].owner = owner;
    ++owners_[owner].places;
  }
  if (evict) evict();
  return Verdict::kTaken;
}

void ConnectionPlaces::GiveBack(uint64_t place) {
  std::function<void()> evict;  // destroyed without the lock: its captures may call back into this class
  std::lock_guard lock(mutex_);
  const auto at = places_.find(place);
  if (at == places_.end()) return;
  evict = std::move(at->second.evict);
  RemoveLocked(place);
}

void ConnectionPlaces::SetIdle(uint64_t place, std::function<void()> evict) {
  std::lock_guard lock(mutex_);
  const auto at = places_.find(place);
  if (at == places_.end() || at->second.state == State::kIdle) return;
  at->second.evict.swap(evict);  // the previous one is destroyed without the lock, as in GiveBack
  SetStateLocked(at->second, place, State::kIdle);
}

void ConnectionPlaces::SetWaiting(uint64_t place, std::function<void()> evict) {
  std::lock_guard lock(mutex_);
  const auto at = places_.find(place);
  if (at == places_.end() || at->second.state != State::kBusy) return;
  at->second.evict = std::move(evict);
  SetStateLocked(at->second, place, State::kWaiting);
}

bool ConnectionPlaces::SetBusy(uint64_t place) {
  std::function<void()> evict;  // as in GiveBack
  std::lock_guard lock(mutex_);
  const auto at = places_.find(place);
  if (at == places_.end()) return false;
  SetStateLocked(at->second, place, State::kBusy);
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
