#include "cache/kv_cache.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ringside {

void KvCache::Reset(const RingWindow& window) {
  CHECK_LE(window.pinned, shape_.pinned_capacity());
  ring_ = Ring(window, shape_.ring_rows());
  state_.Clear();
  turn_ = shared_ = 0;
  set_snapshot(0);
  history_ = nullptr;
  branch_ = 0;
}

KvCache::Place KvCache::Append(int64_t rows, std::vector<StateWrite>* state_writes) {
  const int64_t position = ring_.Append(rows);
  const int slot = state_.SlotOf(StateShape::BoundaryBefore(position));
  state_.Append(position, rows, state_marks(), state_writes);
  return {position, slot};
}

int64_t KvCache::retractable_rows() const {
  const int64_t next = ring_.next();
  if (history_ != nullptr || ring_.FirstLive(next + 1) < ring_.resident()) return 0;
  const int64_t rows = ring_.max_chunk() - 1;
  const int64_t in_tail = StateShape::kChunk - next % StateShape::kChunk - 2;
  return std::max<int64_t>(state_.used() ? std::min(rows, in_tail) : rows, 0);
}

void KvCache::RollBack(int64_t to) {
  CHECK_EQ(Floor(to), to);
  ring_.RollBack(to);
  state_.RollBack(to);
}

void KvCache::Adopt(const KvCache& from, int64_t tokens) {
  const Ring& other = from.ring_;
  CHECK_EQ(from.Floor(tokens), tokens);
  const auto starts = other.message_starts();
  const auto end = std::ranges::lower_bound(starts, tokens);
  const int64_t pinned = other.window().pinned;
  CHECK(ring_.Restore(tokens, tokens > pinned ? other.resident() : pinned, {starts.begin(), end}).ok());
  CHECK(ring_.window() == other.window());
  ring_.AdoptOrigins(other.origins());
  state_.Adopt(from.state_, tokens);
}

Status KvCache::Restore(int64_t next, int64_t resident, std::vector<int64_t> message_starts,
                        std::span<const int64_t> boundaries) {
  state_.Clear();
  RETURN_IF_ERROR(ring_.Restore(next, resident, std::move(message_starts)));
  state_.Restore(boundaries);
  // The state continues exactly after the restored tokens.
  const int64_t last = StateShape::BoundaryBefore(next);
  CHECK(!state_.used() || last == 0 || (!boundaries.empty() && boundaries.back() == last));
  return Status::Ok();
}

void KvCache::BranchOff(const KvCache& history, int64_t tokens) {
  CHECK(shape_ == history.shape_ && history.history_ == nullptr && shape_.state.empty());
  const int64_t pinned = history.ring_.window().pinned;
  CHECK_GE(tokens, pinned);
  ring_ = history.ring_;
  if (tokens < ring_.next()) ring_.RollBack(tokens);
  CHECK_EQ(tokens, ring_.next());
  snapshot_ = 0;
  history_ = history.slab_;
  branch_ = BranchAt(tokens, pinned);
}

int64_t KvCache::StoredFloor(int64_t to) const {
  const auto after = std::ranges::upper_bound(stored_boundaries_, std::min(to, ring_.unchanged()));
  return after == stored_boundaries_.begin() ? 0 : *std::prev(after);
}

bool KvCache::SeesRows(int64_t before) const {
  const int64_t oldest = ring_.FirstLive(ring_.next());
  return oldest < std::min(before, branch_);
}

}  // namespace ringside
