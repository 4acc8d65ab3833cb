// Which timelines of an owner begin like a given history, so that a request that carries its whole history finds what
// was computed of it already. An owner's histories are found for that owner only. Bounded: the least recently used are
// given up, requests that nothing continued before conversations. Owned by the session table; thread-safe.
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

/// What is known of a timeline beside its text.
struct HistoryTraits {
  std::string key;         // by which its client names the conversation; "" = by none
  bool continued = false;  // a request has continued an answer in it
};

class HistoryIndex {
 public:
  /// At most `per_owner` timelines of an owner, and `bytes` bytes in all.
  HistoryIndex(size_t per_owner, size_t bytes) : per_owner_(per_owner), most_bytes_(bytes) {}

  /// The history of this session is `text` from now on. Returns the sessions that were given up for it.
  std::vector<std::string> Set(const std::string& owner, const std::string& session, std::string_view text,
                               int64_t now_ns, HistoryTraits traits = {});
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
  /// `key` decides between sessions that share equally much. It never adds one.
  Matches Find(const std::string& owner, std::string_view text, const std::string& key = "") const;

  /// The session set longest ago; with `before_ns`, only if that was before.
  std::optional<std::string> Oldest(std::optional<int64_t> before_ns = std::nullopt) const;
  /// The session to give up first, of all or of one owner: the one set longest ago, those that were never continued
  /// before all others.
  std::optional<std::string> FirstToGo(const std::optional<std::string>& owner) const;
  size_t bytes() const;

 private:
  using Order = std::map<uint64_t, std::string>;  // sessions by their last Set
  struct Orders {
    Order once, continued;
    Order& Of(const HistoryTraits& traits) { return traits.continued ? continued : once; }
    size_t size() const { return once.size() + continued.size(); }
    const std::string& At(uint64_t id) const { return once.contains(id) ? once.at(id) : continued.at(id); }
    /// Null if there is none but `newest`.
    const std::string* FirstToGo(uint64_t newest = 0) const;
  };
  struct Owner {
    PrefixTree tree;
    Orders orders;
  };
  struct Entry {
    std::string owner;
    PrefixTree::Id id = 0;  // also its place in the orders
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
