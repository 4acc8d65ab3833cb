// A grammar ready for use: which tokens may come next in an answer that must match it. One is shared by all answers
// under the same grammar, and what one of them finds out is known to the others. Thread-safe: one lock, held for a
// token at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "engine/grammar/parse_table.h"
#include "engine/grammar/token_trie.h"
#include "engine/grammar/transition_network.h"

namespace ringside {

class Grammar {
 public:
  /// Takes time in proportion to the grammar and the vocabulary: on a worker. kInvalidArgument as
  /// TransitionNetwork::Compile.
  static Result<std::shared_ptr<const Grammar>> Make(const GrammarSource& source,
                                                     std::shared_ptr<const GrammarVocabulary> vocabulary);

  /// Memory held, about; grows with use up to a limit.
  size_t bytes() const;

 private:
  friend class GrammarMatcher;

  /// The tokens that a place in the network takes whatever comes behind its rule, and those of which that depends.
  struct PlaceMask {
    std::vector<uint32_t> bits;  // a bit a token; or, where these are few,
    std::vector<TokenId> ids;
    TokenTrie open;  // those that lead out of the rule
    size_t bytes() const { return 64 + bits.size() * 4 + ids.size() * 4 + open.bytes(); }
  };

  Grammar(TransitionNetwork network, std::shared_ptr<const GrammarVocabulary> vocabulary);
  /// Precomputes the masks that are dear: those of places that take most characters.
  void Warm();

  // Under the lock.
  const PlaceMask* MaskOf(StateId place) const;
  size_t Walk(const TokenTrie& trie, ParseState from, std::span<uint32_t> mask) const;
  Status FillMask(ParseState state, bool first, std::span<uint32_t> mask) const;
  void Forget() const;

  const TransitionNetwork network_;
  const std::shared_ptr<const GrammarVocabulary> vocabulary_;
  mutable std::mutex mutex_;
  mutable ParseTable table_;
  mutable std::unordered_map<uint64_t, PlaceMask> place_masks_;  // by kind of state
  mutable std::unordered_map<ParseState, std::vector<uint32_t>> masks_;
  mutable size_t place_bytes_ = 0, mask_bytes_ = 0;
  mutable uint64_t generation_ = 0;  // raised where states have been forgotten
};

/// Where one answer stands in its grammar. One thread at a time.
class GrammarMatcher {
 public:
  explicit GrammarMatcher(std::shared_ptr<const Grammar> grammar);

  /// What stands of the answer already, whose next token is not its first. kInvalidArgument, and nothing changed, if no text that matches begins so.
  Status Append(std::string_view text);
  /// Takes a token's text; the turn's first loses its leading space where the tokenizer says so. Errors as above.
  Status Take(TokenId id);
  /// Sets the bits of the tokens that may come next; `mask` has one for each id of the model's vocabulary, cleared or
  /// not. Special tokens are never among them. kInvalidArgument: the grammar needs more work than one token may take,
  /// or the answer more memory.
  Status FillMask(std::span<uint32_t> mask);
  /// The text matches as it stands; and it may be longer.
  bool may_end() const { return may_end_; }
  bool may_go_on() const { return may_go_on_; }

 private:
  Status Advance(std::string_view bytes);
  /// The state again, if the grammar has forgotten it.
  Status Recall();
  void Note();

  std::shared_ptr<const Grammar> grammar_;
  ParseState state_;
  uint64_t generation_;
  std::string text_;
  bool first_ = true, may_end_ = false, may_go_on_ = true;
};

}  // namespace ringside
