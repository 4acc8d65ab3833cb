// Radix tree over texts: finds the stored text with the longest common prefix of a given one. Shared prefixes are
// stored once. Not synchronized.
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

  /// Sets the text of `id`. Takes time in proportion to the text's length.
  void Set(Id id, std::string_view text);
  /// Ignores an unknown id.
  void Erase(Id id);

  struct Match {
    Id id = 0;
    size_t shared = 0;  // common bytes, at least 1
  };
  struct Matches {
    // Among equal texts the one set first counts: of running turns it has progressed furthest.
    std::optional<Match> longest;  // longest common prefix; among equals a short text, otherwise the one set last
    std::optional<Match> whole;    // the longest stored text that is a prefix of `text`
  };
  /// `prefers`, if given, selects among texts with equally long common prefixes.
  Matches Find(std::string_view text, const std::function<bool(Id)>& prefers = nullptr) const;

  size_t size() const { return ends_.size(); }
  /// Approximate memory.
  size_t bytes() const { return bytes_; }

 private:
  struct Node;
  Node* Insert(std::string_view text);
  /// Splits the edge to `node` after its first `length` bytes.
  Node* Split(Node* node, size_t length);
  void Prune(Node* node);
  /// Returns an id in the node's subtree for which `prefers` is true.
  static std::optional<Id> Preferred(const Node& node, const std::function<bool(Id)>& prefers);

  std::unique_ptr<Node> root_;
  std::unordered_map<Id, Node*> ends_;  // node at which each id's text ends
  uint64_t sets_ = 0;
  size_t bytes_ = 0;
};

}  // namespace ringside
