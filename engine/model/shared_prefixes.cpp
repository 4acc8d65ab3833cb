#include "engine/model/shared_prefixes.h"

#include <algorithm>

#include "base/check.h"

namespace ringside {
namespace {

/// Number of first positions that every row of the segment sees, at the same places as in any other cache with these
/// rows.
int64_t SeenByAllRows(const AttentionSegment& s) {
  if (s.rows == 0 || s.rows > SharedPrefixes::kMaxRows || s.position < s.pinned) return 0;
  const bool evicted = s.first_live[s.rows - 1] > s.pinned;
  const int64_t seen = evicted ? s.pinned : s.position;
  return s.history != nullptr ? std::min(seen, s.branch) : seen;
}

}  // namespace

void SharedPrefixes::Find(std::span<const KvCache* const> caches, std::span<AttentionSegment> segments) {
  CHECK_EQ(caches.size(), segments.size());
  members_.clear();
  groups_.clear();
  for (size_t i = 0; i < segments.size(); ++i) {
    const int64_t seen = SeenByAllRows(segments[i]);
    if (seen >= kMinTokens) members_.push_back({caches[i], &segments[i], seen, 0});
  }
  if (members_.size() < 2) return;
  const auto origins = [](const Member& m) -> const RowOrigins& { return m.cache->ring().origins(); };
  std::ranges::sort(members_, [&](const Member& a, const Member& b) {
    if (a.segment->pinned != b.segment->pinned) return a.segment->pinned < b.segment->pinned;
    return origins(a).Compare(origins(b)).order < 0;
  });
  for (size_t i = 0; i + 1 < members_.size(); ++i) {
    Member &own = members_[i], &next = members_[i + 1];
    const bool alike = own.segment->pinned == next.segment->pinned;
    own.common = alike ? origins(own).Compare(origins(next)).common : 0;
  }
  for (size_t first = 0, i = 0; i < members_.size(); ++i) {
    if (members_[i].common >= kMinTokens) continue;
    Partition(first, i + 1);
    first = i + 1;
  }
  for (const Group& group : groups_) {
    const KvCache& reader = *members_[group.first].cache;
    for (size_t i = group.first; i < group.first + group.count; ++i) {
      members_[i].segment->prefix = reader.history() != nullptr ? reader.history() : reader.slab();
      members_[i].segment->prefix_end = group.tokens;
    }
  }
}

int64_t SharedPrefixes::Partition(size_t first, size_t last) {
  if (last - first < 2) return 0;
  int64_t tokens = members_[last - 1].seen;
  size_t border = first;
  for (size_t i = first; i + 1 < last; ++i) {
    tokens = std::min({tokens, members_[i].seen, members_[i].common});
    if (members_[i].common < members_[border].common) border = i;
  }
  const bool fits = tokens >= kMinTokens && tokens >= members_[first].segment->pinned;
  const int64_t together = fits ? static_cast<int64_t>(last - first - 1) * tokens : 0;
  const size_t before = groups_.size();
  const int64_t apart = Partition(first, border + 1) + Partition(border + 1, last);
  if (together < apart || together == 0) return apart;
  groups_.resize(before);
  groups_.push_back({first, last - first, tokens});
  return together;
}

}  // namespace ringside
