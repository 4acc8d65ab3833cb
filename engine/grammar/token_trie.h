// The vocabulary's tokens as a tree of their bytes, in one array in depth-first order: walked beside an automaton, it
// says which tokens the automaton takes, and where a beginning is not taken all that begins like it is passed over.
// Immutable; any thread.
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
    uint16_t depth = 0;        // of the root's children: 0
    uint32_t end = 0;          // behind the node's last descendant
    uint32_t first_token = 0;  // of tokens(): those that end here stand up to the next node's first
  };
  /// Behind the last stands one more, whose first_token is the number of tokens.
  const std::vector<Node>& nodes() const { return nodes_; }
  size_t size() const { return nodes_.empty() ? 0 : nodes_.size() - 1; }
  /// Those whose bytes end at the node.
  std::span<const TokenId> TokensAt(size_t node) const {
    return std::span(tokens_).subspan(nodes_[node].first_token,
                                      nodes_[node + 1].first_token - nodes_[node].first_token);
  }
  /// Those of the node and its descendants.
  std::span<const TokenId> TokensBelow(size_t node) const {
    return std::span(tokens_).subspan(nodes_[node].first_token,
                                      nodes_[nodes_[node].end].first_token - nodes_[node].first_token);
  }
  size_t depth() const { return depth_; }  // bytes of the longest token
  size_t bytes() const { return nodes_.size() * sizeof(Node) + tokens_.size() * sizeof(TokenId); }

 private:
  std::vector<Node> nodes_;
  std::vector<TokenId> tokens_;  // in the nodes' order
  size_t depth_ = 0;
};

/// What of a tokenizer a grammar needs, made once for all grammars.
struct GrammarVocabulary {
  /// `tokenizer` outlives it.
  explicit GrammarVocabulary(const Tokenizer& tokenizer);
  const Tokenizer& tokenizer;
  TokenTrie tokens;        // special ones and those without bytes are not among them
  TokenTrie first_tokens;  // the same as an answer begins with them, where that takes a leading space away
  bool strips_first = false;
};

}  // namespace ringside
