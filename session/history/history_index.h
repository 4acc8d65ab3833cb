// Which timelines of an owner begin like a given history, so that a request that carries its whole history finds what
// was computed of it already. One owner's are never found for another. Bounded: the ones used longest ago are given up.
// Owned by the session table; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "session/history/prefix_tree.h"

namespace ringside {

class HistoryIndex {
 public:
  /// At most `per_owner` timelines of an owner, and `bytes` bytes in all.
  HistoryIndex(size_t per_owner, size_t bytes) : per_owner_(per_owner), most_bytes_(bytes) {}

  /// The history of this session is `text` from now on. Returns the sessions that were given up for it.
  std::vector<std::string> Set(const std::string& owner, const std::string& session, std::string_view text,
                               int64_t now_ns);
  void Erase(const std::string& session);
  bool Contains(const std::string& session) const;

  struct Match {
    std::string session;
    size_t shared = 0;  // bytes that both begin with
    size_t size = 0;    // bytes of the session's text
  };
  struct Matches {
    std::optional<Match> longest, whole;  // as in PrefixTree
  };
  Matches Find(const std::string& owner, std::string_view text) const;

  /// The session set longest ago, of all or of one owner; with `before_ns`, only if that was before.
  std::optional<std::string> Oldest(std::optional<int64_t> before_ns = std::nullopt) const;
  std::optional<std::string> OldestOf(const std::string& owner) const;
  size_t bytes() const;

 private:
  using Order = std::map<uint64_t, std::string>;  // sessions by their last Set
  struct Owner {
    PrefixTree tree;
    Order order;
  };
  struct Entry {
    std::string owner;
    PrefixTree::Id id = 0;  // also its place in the orders
    size_t size = 0;
    int64_t used_ns = 0;
  };
  void EraseLocked(const std::string& session);
  std::optional<Match> Describe(const Owner& owner, const std::optional<PrefixTree::Match>& match) const;

  const size_t per_owner_, most_bytes_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Entry> sessions_;
  std::unordered_map<std::string, Owner> owners_;  // with at least one session
  Order order_;
  uint64_t sets_ = 0;
  size_t bytes_ = 0;  // of all trees
};

}  // namespace ringside
