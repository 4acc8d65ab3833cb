// Who has how many bytes in a store, in order of last use. Owned by a Store. Thread-safe.
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
  void Remove(const std::string& owner);
  void Clear();

  std::optional<Entry> Find(const std::string& owner) const;
  /// The least recently used owner; nullopt if there is none. With `before_ns`, only if it was last used before.
  std::optional<std::string> Oldest(std::optional<int64_t> before_ns = std::nullopt) const;
  std::vector<std::string> Owners() const;
  int64_t bytes() const;
  int64_t owners() const;

 private:
  struct Node {
    Entry entry;
    std::list<std::string>::iterator place;
  };
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Node> nodes_;
  std::list<std::string> order_;  // oldest first
  int64_t bytes_ = 0;
};

}  // namespace ringside
