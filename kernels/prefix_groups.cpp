#include "kernels/prefix_groups.h"

#include <algorithm>

#include "base/check.h"

namespace ringside {

std::vector<PrefixGroup> PrefixGroupsOf(const AttentionArgs& args) {
  std::vector<PrefixGroup> groups;
  if (args.scores.window > 0 || args.seen != VisibleKeys::kBefore) return groups;
  for (size_t i = 0; i < args.segments.size(); ++i) {
    const AttentionSegment& s = args.segments[i];
    if (s.prefix == nullptr || s.rows == 0) continue;
    const auto group = std::ranges::find_if(
        groups, [&](const PrefixGroup& other) { return other.slab == s.prefix && other.end == s.prefix_end; });
    if (group == groups.end()) {
      groups.push_back({s.prefix, s.prefix_end, s.pinned, {i}});
    } else {
      CHECK_EQ(group->pinned, s.pinned);
      group->segments.push_back(i);
    }
  }
  std::erase_if(groups, [](const PrefixGroup& group) { return group.segments.size() < 2; });
  return groups;
}

}  // namespace ringside
