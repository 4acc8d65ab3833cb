// Texts by what they begin with: a radix tree (a trie whose chains are single edges). Tells of a new text which known
// one shares the longest beginning with it. A beginning that several texts share is kept once. A value of its owner; no
// locks of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ringside {

class PrefixTree {
 public:
  using Id = uint64_t;

  PrefixTree();
  ~PrefixTree();
  PrefixTree(PrefixTree&&) noexcept;
  PrefixTree& operator=(PrefixTree&&) noexcept;

  /// The text of `id` is this one from now on. Time grows with the length of the text alone.
  void Set(Id id, std::string_view text);
  /// An unknown id is ignored.
  void Erase(Id id);

  struct Match {
    Id id = 0;
    size_t shared = 0;  // bytes that both begin with, at least 1
  };
  struct Matches {
    // Of equal texts the one set first is meant: of turns that run, it is the furthest.
    std::optional<Match> longest;  // shares most; of several a short one, or else the one set last
    std::optional<Match> whole;    // the longest that `text` begins with
  };
  /// `prefers`, where given, decides between texts that share equally much.
  Matches Find(std::string_view text, const std::function<bool(Id)>& prefers = nullptr) const;

  size_t size() const { return ends_.size(); }
  /// Memory held, about.
  size_t bytes() const { return bytes_; }

 private:
  struct Node;
  Node* Insert(std::string_view text);
  /// Cuts the edge to `node`: what is behind its first `length` bytes becomes an edge of its own.
  Node* Split(Node* node, size_t length);
  void Prune(Node* node);
  /// An id of the node or below it that `prefers` is true of.
  static std::optional<Id> Preferred(const Node& node, const std::function<bool(Id)>& prefers);

  std::unique_ptr<Node> root_;
  std::unordered_map<Id, Node*> ends_;  // where each id's text ends
  uint64_t sets_ = 0;
  size_t bytes_ = 0;
};

}  // namespace ringside
