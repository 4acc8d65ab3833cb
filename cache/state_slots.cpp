#include "cache/state_slots.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/defect.h"

namespace ringside {
namespace {

int64_t Before(int64_t position) { return StateShape::BoundaryBefore(position); }

/// A boundary as ThinBoundaries compares it.
struct Candidate {
  // In the order in which they are dropped.
  enum Kind { kOther, kMessageStart, kMark, kNever };
  int64_t position = 0;
  Kind kind = kOther;
};

}  // namespace

std::vector<int64_t> ThinBoundaries(std::vector<int64_t> boundaries, int64_t most, const StateMarks& marks,
                                    std::optional<int64_t> read) {
  if (std::ssize(boundaries) <= most) return boundaries;
  const auto before = [&](int64_t position) {  // the last boundary at or before the position; 0 = none
    const auto after = std::ranges::upper_bound(boundaries, position);
    return after == boundaries.begin() ? 0 : *std::prev(after);
  };
  const int64_t marked[] = {before(marks.turn), before(marks.pinned), before(marks.shared)};
  const auto kind_of = [&](int64_t position) {
    if (position == boundaries.back() || position == read) return Candidate::kNever;
    if (std::ranges::count(marked, position) > 0) return Candidate::kMark;
    const auto start = std::ranges::lower_bound(marks.starts, position);
    const bool starts = start != marks.starts.end() && *start < position + StateShape::kChunk;
    return starts ? Candidate::kMessageStart : Candidate::kOther;
  };
  std::vector<Candidate> kept;
  for (const int64_t position : boundaries) kept.push_back({position, kind_of(position)});
  while (std::ssize(kept) > most) {
    size_t victim = 0;
    std::pair<int, int64_t> least{Candidate::kNever, 0};
    for (size_t i = 0; i + 1 < kept.size(); ++i) {  // never the last one
      const int64_t gap = kept[i + 1].position - (i == 0 ? 0 : kept[i - 1].position);
      const std::pair<int, int64_t> value{kept[i].kind, gap};
      if (value < least) victim = i, least = value;
    }
    CHECK_LT(least.first, static_cast<int>(Candidate::kNever));
    kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(victim));
  }
  boundaries.clear();
  for (const Candidate& candidate : kept) boundaries.push_back(candidate.position);
  return boundaries;
}

StateSlots::StateSlots(int64_t slots) : slots_(slots) { CHECK(slots == 0 || slots >= 2); }

std::vector<int64_t> StateSlots::positions() const {
  std::vector<int64_t> out;
  for (const StateWrite& held : held_) out.push_back(held.position);
  return out;
}

int StateSlots::SlotOf(int64_t boundary) const {
  const auto found = std::ranges::lower_bound(held_, boundary, {}, &StateWrite::position);
  return found == held_.end() || found->position != boundary ? -1 : found->slot;
}

int64_t StateSlots::Floor(int64_t to, int64_t next) const {
  if (!used() || to >= Before(next) || RINGSIDE_DEFECT("state_floor_ignored")) return to;
  const auto after = std::ranges::upper_bound(held_, to, {}, &StateWrite::position);
  return after == held_.begin() ? 0 : std::prev(after)->position;
}

void StateSlots::Append(int64_t position, int64_t rows, const StateMarks& marks, std::vector<StateWrite>* writes) {
  const int64_t read = Before(position), last = Before(position + rows);
  if (!used() || last == read) return;
  CHECK(read == 0 || SlotOf(read) >= 0);
  std::vector<int64_t> boundaries = positions();
  for (int64_t p = read + kChunk; p <= last; p += kChunk) boundaries.push_back(p);
  std::vector<StateWrite> kept;
  std::vector<bool> taken(static_cast<size_t>(slots_));
  for (const int64_t boundary : ThinBoundaries(std::move(boundaries), slots_, marks, read)) {
    const int slot = SlotOf(boundary);
    if (slot >= 0) taken[static_cast<size_t>(slot)] = true;
    kept.push_back({boundary, slot});
  }
  for (StateWrite& boundary : kept) {
    if (boundary.slot >= 0) continue;
    const auto free = std::ranges::find(taken, false);
    *free = true;
    boundary.slot = static_cast<int>(free - taken.begin());
    writes->push_back(boundary);
  }
  held_ = std::move(kept);
}

void StateSlots::RollBack(int64_t to) {
  if (!RINGSIDE_DEFECT("boundaries_not_rolled_back")) {
    std::erase_if(held_, [to](const StateWrite& held) { return held.position > to; });
  }
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
