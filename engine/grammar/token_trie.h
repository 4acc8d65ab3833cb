// The vocabulary as a byte trie, in one array in depth-first order. Walked together with an automaton, it yields the
// accepted tokens; the subtree of a rejected prefix is skipped. Immutable. THREAD: any.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/text/tokenizer.h"

namespace ringside {

class TokenTrie {
 public:
  using Entry = std::pair<std::string_view, TokenId>;  // bytes, not empty

  TokenTrie() = default;
  explicit TokenTrie(std::vector<Entry> entries);

  struct Node {
    uint8_t byte = 0;
    uint16_t depth = 0;        // 0 for the root's children
    uint32_t end = 0;          // one past the node's last descendant
    uint32_t first_token = 0;  // index in tokens(); the node's tokens end at the next node's first_token
  };
  /// With a sentinel at the end, whose first_token is the number of tokens.
  const std::vector<Node>& nodes() const { return nodes_; }
  size_t size() const { return nodes_.empty() ? 0 : nodes_.size() - 1; }
  /// Tokens that end at the node.
  std::span<const TokenId> TokensAt(size_t node) const {
    return std::span(tokens_).subspan(nodes_[node].first_token,
                                      nodes_[node + 1].first_token - nodes_[node].first_token);
  }
  /// Tokens of the node and its descendants.
  std::span<const TokenId> TokensBelow(size_t node) const {
    return std::span(tokens_).subspan(nodes_[node].first_token,
                                      nodes_[nodes_[node].end].first_token - nodes_[node].first_token);
  }
  size_t depth() const { return depth_; }  // bytes of the longest token
  size_t bytes() const { return nodes_.size() * sizeof(Node) + tokens_.size() * sizeof(TokenId); }

 private:
  std::vector<Node> nodes_;
  std::vector<TokenId> tokens_;  // in node order
  size_t depth_ = 0;
};

/// The part of a tokenizer that grammars need, shared by all grammars.
struct GrammarVocabulary {
  /// REQUIRES: `tokenizer` outlives it.
  explicit GrammarVocabulary(const Tokenizer& tokenizer);
  const Tokenizer& tokenizer;
  TokenTrie tokens;        // without special tokens and those without bytes
  TokenTrie first_tokens;  // as `tokens`, for the first token of an answer, which may lose a leading space
  bool strips_first = false;
};

}  // namespace ringside
