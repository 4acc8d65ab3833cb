#include "cache/ring.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ringside {

Ring::Ring(RingWindow window, int64_t rows) : window_(window), rows_(rows), resident_(window.pinned) {
  CHECK_GE(window.pinned, 0);
  CHECK_GE(window.memory_len, 1);
  CHECK_GE(rows, window.memory_len);
}

void Ring::AddMessageStart(int64_t position) {
  CHECK(starts_.empty() || starts_.back() <= position);
  if (starts_.empty() || starts_.back() < position) starts_.push_back(position);
}

int64_t Ring::FirstLive(int64_t t) const {
  const int64_t oldest = t - window_.memory_len + 1;
  if (oldest <= window_.pinned) return window_.pinned;
  const auto start = std::lower_bound(starts_.begin(), starts_.end(), oldest);
  const bool moves = start != starts_.end() && *start <= std::min(t, oldest + window_.slack());
  return moves ? *start : oldest;
}

int64_t Ring::PinnedQueryPosition(int64_t t) const {
  return t < window_.pinned ? t : window_.pinned + t - FirstLive(t);
}

int64_t Ring::Append(int64_t n) {
  CHECK_GE(n, 1);
  CHECK_LE(n, max_chunk());
  const int64_t first = next_;
  next_ += n;
  resident_ = std::max(resident_, next_ - rows_);
  origins_.Write(next_);
  return first;
}

bool Ring::CanRollBack(int64_t to) const {
  if (to < 0 || to > next_) return false;
  return to <= window_.pinned || FirstLive(to) >= std::min(to, resident_);
}

void Ring::RollBack(int64_t to) {
  CHECK(CanRollBack(to));
  next_ = to;
  origins_.RollBack(to);
  unchanged_ = std::min(unchanged_, to);
  if (to <= window_.pinned) resident_ = window_.pinned;
  starts_.erase(std::lower_bound(starts_.begin(), starts_.end(), to), starts_.end());
}

void Ring::Clear() { RollBack(0); }

Status Ring::Restore(int64_t next, int64_t resident, std::vector<int64_t> message_starts) {
  Clear();
  constexpr int64_t kFar = int64_t{1} << 48;  // sums of a few positions cannot overflow
  if (next < 0 || next > kFar || resident < window_.pinned || resident > kFar) {
    return Corruption("ring: a position out of range");
  }
  for (size_t i = 0; i < message_starts.size(); ++i) {
    const bool ascends = i == 0 || message_starts[i - 1] < message_starts[i];
    if (message_starts[i] < 0 || message_starts[i] > kFar || !ascends)
      return Corruption("ring: message starts out of range or order");
  }
  next_ = next;
  resident_ = std::max(resident, next - rows_);
  starts_ = std::move(message_starts);
  origins_.Write(next);
  unchanged_ = next;
  if (CanRollBack(next)) return Status::Ok();
  starts_.clear();
  Clear();
  return Corruption("ring: rows that the next position sees are gone");
}

void Ring::AdoptOrigins(const RowOrigins& from) {
  CHECK_LE(next_, from.rows());
  origins_ = from;
  origins_.RollBack(next_);
}

void Ring::SkipTo(int64_t position) {
  CHECK_EQ(next_, window_.pinned);
  CHECK_GE(position, next_);
  next_ = resident_ = position;
  origins_.Write(position);
}

}  // namespace ringside
