// Consistent hashing as in a proxy (Karger et al. 1997): every member has points on a ring of numbers, in proportion to
// its weight, and a key belongs to the member of the next point, or of the next one that is accepted: a member that is
// up and, with bounded loads (Mirrokni, Thorup, Zadimoghaddam 2018), not too full. THREAD: one.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace ringside {

/// SplitMix64: a number's position on the ring.
inline uint64_t HashOf(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

class HashRing {
 public:
  /// Adds a member with `points` points. Call Sort after the last one.
  void Add(uint32_t member, int64_t points) {
    for (int64_t i = 0; i < points; ++i) {
      points_.push_back({HashOf(HashOf(member) + static_cast<uint64_t>(i)), member, static_cast<uint32_t>(i)});
    }
  }
  void Sort() { std::ranges::sort(points_); }

  /// The first member after `key` for which accepts(member, i) is true, where i is the point's index among the
  /// member's; nullopt if there is none.
  template <class Accepts>
  std::optional<uint32_t> Find(uint64_t key, Accepts&& accepts) const {
    const auto begin = std::ranges::lower_bound(points_, key, {}, &Point::at);
    auto at = static_cast<size_t>(begin - points_.begin());
    for (size_t i = 0; i < points_.size(); ++i, ++at) {
      const Point& point = points_[at % points_.size()];
      if (accepts(point.member, point.index)) return point.member;
    }
    return std::nullopt;
  }

 private:
  struct Point {
    uint64_t at;
    uint32_t member, index;
    auto operator<=>(const Point&) const = default;
  };
  std::vector<Point> points_;
};

}  // namespace ringside
