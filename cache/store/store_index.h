// LRU index of a store: bytes of each owner in order of last use, and which are spare (also kept elsewhere), hence
// evicted first. Owned by a Store. THREAD: any.
#pragma once

#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace ringside {

class StoreIndex {
 public:
  struct Entry {
    int64_t bytes = 0;
    int64_t used_ns = 0;  // monotonic
  };

  /// Adds an owner or changes its size, and makes it the most recently used.
  void Set(const std::string& owner, int64_t bytes, int64_t now_ns);
  /// Records a use.
  void Touch(const std::string& owner, int64_t now_ns);
  /// Marks the owner's object as spare, or not, until it is removed. No effect if there is none.
  void SetSpare(const std::string& owner, bool spare);
  void Remove(const std::string& owner);
  void Clear();

  std::optional<Entry> Find(const std::string& owner) const;
  /// The least recently used owner; nullopt if there is none. With `before_ns`, only if its last use was earlier.
  std::optional<std::string> Oldest(std::optional<int64_t> before_ns = std::nullopt) const;
  /// The eviction victim: the least recently used spare object, or the least recently used object if none is spare.
  std::optional<std::string> PickEvictionVictim() const;
  /// Least recently used first.
  std::vector<std::string> Owners() const;
  int64_t bytes() const;
  int64_t owners() const;

 private:
  struct Node {
    Entry entry;
    std::list<std::string>::iterator place;
    std::optional<std::list<std::string>::iterator> spare;
  };
  void MoveToFront(const Node& node);

  mutable std::mutex mutex_;
  std::unordered_map<std::string, Node> nodes_;
  std::list<std::string> order_, spare_;  // oldest first; spare_ is a subset of order_
  int64_t bytes_ = 0;
};

}  // namespace ringside
