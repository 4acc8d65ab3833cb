// Finds an owner's timelines with the longest common prefix with a given history, so that a stateless request reuses
// the computed part. Histories of other owners are never found. Bounded: evicts the least recently used, single
// requests before continued conversations. Owned by the session table.
// THREAD: any.
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

/// Properties of a timeline apart from its text.
struct HistoryTraits {
  std::string key;         // the client's name of the conversation; "" = none
  bool continued = false;  // a request has continued one of its answers
};

class HistoryIndex {
 public:
  /// Limits: `per_owner` timelines of an owner, `bytes` in total.
  HistoryIndex(size_t per_owner, size_t bytes) : per_owner_(per_owner), most_bytes_(bytes) {}

  /// Sets this session's history. Returns the sessions evicted for it.
  std::vector<std::string> Set(const std::string& owner, const std::string& session, std::string_view text,
                               int64_t now_ns, HistoryTraits traits = {});
  void Erase(const std::string& session);
  bool Contains(const std::string& session) const;

  struct Match {
    std::string session;
    size_t shared = 0;  // bytes of the common prefix
    size_t size = 0;    // bytes of the session's history
  };
  struct Matches {
    std::optional<Match> longest, whole;  // as in PrefixTree
  };
  /// `key` selects among sessions with equally long common prefixes, and never adds one.
  Matches Find(const std::string& owner, std::string_view text, const std::string& key = "") const;

  /// The session with the oldest Set; with `before_ns`, only if it is older than that.
  std::optional<std::string> Oldest(std::optional<int64_t> before_ns = std::nullopt) const;
  /// The next session to evict, of all or of one owner: the one with the oldest Set, never continued ones first.
  std::optional<std::string> PickEvictionVictim(const std::optional<std::string>& owner) const;
  size_t bytes() const;

 private:
  using Order = std::map<uint64_t, std::string>;  // sessions by their latest Set
  struct Orders {
    Order once, continued;
    Order& Of(const HistoryTraits& traits) { return traits.continued ? continued : once; }
    size_t size() const { return once.size() + continued.size(); }
    const std::string& At(uint64_t id) const { return once.contains(id) ? once.at(id) : continued.at(id); }
    /// Null if there is none except `newest`.
    const std::string* PickEvictionVictim(uint64_t newest = 0) const;
  };
  struct Owner {
    PrefixTree tree;
    Orders orders;
  };
  struct Entry {
    std::string owner;
    PrefixTree::Id id = 0;  // also its key in the orders
    size_t size = 0;
    int64_t used_ns = 0;
    HistoryTraits traits = {};
  };
  void EraseLocked(const std::string& session);
  std::optional<Match> Describe(const Owner& owner, const std::optional<PrefixTree::Match>& match) const;

  const size_t per_owner_, most_bytes_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Entry> sessions_;
  std::unordered_map<std::string, Owner> owners_;  // with at least one session
  Orders orders_;
  uint64_t sets_ = 0;
  size_t bytes_ = 0;  // of all trees and keys
};

}  // namespace ringside
