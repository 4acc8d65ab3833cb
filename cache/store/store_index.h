// Who has how many bytes in a store, in order of last use, and whose are spare: kept elsewhere too, so that they go
// first. Owned by a Store. Thread-safe.
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

  /// Adds an owner or changes its size, as the most recently used one.
  void Set(const std::string& owner, int64_t bytes, int64_t now_ns);
  /// Notes a use.
  void Touch(const std::string& owner, int64_t now_ns);
  /// Whether what the owner has here is spare from now on, until it is removed. Nothing happens if it has nothing.
  void SetSpare(const std::string& owner, bool spare);
  void Remove(const std::string& owner);
  void Clear();

  std::optional<Entry> Find(const std::string& owner) const;
  /// The least recently used owner; nullopt if there is none. With `before_ns`, only if it was last used before.
  std::optional<std::string> Oldest(std::optional<int64_t> before_ns = std::nullopt) const;
  /// Who should go first where room is wanted: the least recently used of those whose bytes are spare, or of all.
  std::optional<std::string> FirstToGo() const;
  /// The least recently used first.
  std::vector<std::string> Owners() const;
  int64_t bytes() const;
  int64_t owners() const;

 private:
  struct Node {
    Entry entry;
    std::list<std::string>::iterator place;
    std::optional<std::list<std::string>::iterator> spare;
  };
  void MakeNewest(const Node& node);

  mutable std::mutex mutex_;
  std::unordered_map<std::string, Node> nodes_;
  std::list<std::string> order_, spare_;  // oldest first; spare_ has some of them once more
  int64_t bytes_ = 0;
};

}  // namespace ringside
