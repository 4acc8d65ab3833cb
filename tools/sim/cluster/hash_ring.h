// Consistent hashing as in a proxy (Karger et al. 1997): every server has points on a ring of numbers, and a key
// belongs to the server of the next point, or of the next one whose server accepts it: one that is up and, with bounded
// loads (Mirrokni, Thorup, Zadimoghaddam 2018), not too full. THREAD: one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
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
  /// `points`: of each server.
  explicit HashRing(int64_t points) : points_per_server_(points) {}

  /// Adds servers [begin, end).
  void Add(uint32_t begin, uint32_t end) {
    for (uint32_t server = begin; server < end; ++server) {
      for (int64_t i = 0; i < points_per_server_; ++i) {
        points_.emplace_back(HashOf(HashOf(server) + static_cast<uint64_t>(i)), server);
      }
    }
    std::ranges::sort(points_);
  }
  /// Removes the servers before `end`.
  void Remove(uint32_t end) {
    std::erase_if(points_, [&](const auto& point) { return point.second < end; });
  }
  /// The first server after `key` for which accepts(server) is true; nullopt if there is none.
  template <class Accepts>
  std::optional<uint32_t> Find(uint64_t key, Accepts&& accepts) const {
    const auto begin = std::ranges::lower_bound(points_, std::pair(key, uint32_t{0}));
    auto at = static_cast<size_t>(begin - points_.begin());
    for (size_t i = 0; i < points_.size(); ++i, ++at) {
      const uint32_t server = points_[at % points_.size()].second;
      if (accepts(server)) return server;
    }
    return std::nullopt;
  }

 private:
  const int64_t points_per_server_;
  std::vector<std::pair<uint64_t, uint32_t>> points_;
};

}  // namespace ringside
