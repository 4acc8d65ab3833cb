#include "cache/state_slots.h"

#include <algorithm>

#include "base/check.h"

namespace ringside {
namespace {

// Values of StateSlots::Candidate::keep.
enum Keep { kInterior, kMessageStart, kAnchor, kAlways };

int64_t Before(int64_t position) { return StateShape::BoundaryBefore(position); }

}  // namespace

StateSlots::StateSlots(int64_t slots) : slots_(slots) { CHECK(slots == 0 || slots >= 2); }

int StateSlots::SlotOf(int64_t boundary) const {
  const auto found = std::ranges::lower_bound(held_, boundary, {}, &StateWrite::position);
  return found == held_.end() || found->position != boundary ? -1 : found->slot;
}

int64_t StateSlots::Floor(int64_t to, int64_t next) const {
  if (!used() || to >= Before(next)) return to;
  const auto after = std::ranges::upper_bound(held_, to, {}, &StateWrite::position);
  return after == held_.begin() ? 0 : std::prev(after)->position;
}

void StateSlots::Append(int64_t position, int64_t rows, std::span<const int64_t> starts, int64_t pinned,
                        std::vector<StateWrite>* writes) {
  const int64_t begin = Before(position), last = Before(position + rows);
  if (!used() || last == begin) return;
  CHECK(begin == 0 || SlotOf(begin) >= 0);
  std::vector<Candidate> candidates;
  for (const StateWrite& held : held_) candidates.push_back({.position = held.position, .slot = held.slot});
  for (int64_t p = begin + kChunk; p <= last; p += kChunk) candidates.push_back({.position = p});
  for (Candidate& candidate : candidates) {
    const int64_t p = candidate.position;
    const auto start = std::ranges::lower_bound(starts, p);
    if (p == begin || p == last) {
      candidate.keep = kAlways;
    } else if (p == Before(turn_) || p == Before(pinned)) {
      candidate.keep = kAnchor;
    } else if (start != starts.end() && *start < p + kChunk) {
      candidate.keep = kMessageStart;
    }
  }
  Thin(&candidates);
  std::vector<bool> taken(static_cast<size_t>(slots_));
  for (const Candidate& candidate : candidates) {
    if (candidate.slot >= 0) taken[static_cast<size_t>(candidate.slot)] = true;
  }
  held_.clear();
  for (Candidate& candidate : candidates) {
    if (candidate.slot < 0) {
      const auto free = std::ranges::find(taken, false);
      *free = true;
      candidate.slot = static_cast<int>(free - taken.begin());
      writes->push_back({candidate.position, candidate.slot});
    }
    held_.push_back({candidate.position, candidate.slot});
  }
}

void StateSlots::Thin(std::vector<Candidate>* candidates) const {
  while (std::ssize(*candidates) > slots_) {
    for (size_t i = 0; i < candidates->size(); ++i) {
      const int64_t before = i == 0 ? 0 : (*candidates)[i - 1].position;
      const int64_t after = (*candidates)[std::min(i + 1, candidates->size() - 1)].position;
      (*candidates)[i].gap = after - before;
    }
    const auto victim = std::ranges::min_element(
        *candidates, {}, [](const Candidate& candidate) { return std::pair(candidate.keep, candidate.gap); });
    CHECK_LT(victim->keep, static_cast<int>(kAlways));
    candidates->erase(victim);
  }
}

void StateSlots::RollBack(int64_t to) {
  std::erase_if(held_, [to](const StateWrite& held) { return held.position > to; });
  CHECK(!used() || Before(to) == 0 || SlotOf(Before(to)) >= 0);
}

void StateSlots::Restore(std::span<const int64_t> boundaries) {
  CHECK_LE(std::ssize(boundaries), slots_);
  held_.clear();
  for (const int64_t boundary : boundaries) held_.push_back({boundary, static_cast<int>(held_.size())});
}

void StateSlots::Adopt(const StateSlots& from, int64_t tokens) {
  held_ = from.held_;
  RollBack(tokens);
}

}  // namespace ringside
