// A compiled grammar: the tokens that may come next in an answer that must match it. All answers under the same grammar
// share it and its caches. THREAD: any; one lock, held for one token at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "engine/grammar/grammar_memory.h"
#include "engine/grammar/parse_table.h"
#include "engine/grammar/token_trie.h"
#include "engine/grammar/transition_network.h"

namespace ringside {

class Grammar {
 public:
  /// Takes time in proportion to the grammar and the vocabulary: call on a worker. `memory`, if not null, counts the
  /// grammar's bytes. ERRORS: as TransitionNetwork::Compile.
  static Result<std::shared_ptr<const Grammar>> Make(const GrammarSource& source,
                                                     std::shared_ptr<const GrammarVocabulary> vocabulary,
                                                     std::shared_ptr<GrammarMemory> memory = nullptr);
  Grammar(const Grammar&) = delete;
  Grammar& operator=(const Grammar&) = delete;

  /// Approximate memory; grows with use up to a limit.
  size_t bytes() const;
  /// The part that does not grow.
  size_t compiled_bytes() const { return network_.bytes(); }

 private:
  friend class GrammarMatcher;

  /// Tokens that a place in the network accepts whatever follows its rule, and tokens that depend on it.
  struct PlaceMask {
    std::vector<uint32_t> bits;  // a bit per token; or, if few,
    std::vector<TokenId> ids;
    TokenTrie open;  // tokens that extend past the rule
    size_t bytes() const { return 128 + bits.capacity() * 4 + ids.capacity() * 4 + open.bytes(); }
  };
  /// The parse state of one answer.
  struct Position {
    ParseState state = kDeadParse;
    bool used = false;
    bool too_deep = false;  // dropped, because its state alone takes too much memory
  };

  Grammar(TransitionNetwork network, std::shared_ptr<const GrammarVocabulary> vocabulary,
          std::shared_ptr<GrammarMemory> memory);
  /// Precomputes expensive masks: those of the start, and of places that accept most characters.
  void Warm();

  // REQUIRES: mutex_ held, for all below.
  const PlaceMask* MaskOf(StateId place) const;
  void Walk(const TokenTrie& trie, ParseState from, std::span<uint32_t> mask) const;
  Status FillMask(ParseState state, bool first, std::span<uint32_t> mask) const;
  size_t AddPosition(ParseState state) const;
  /// Drops states that can be derived again once they take too much memory. Positions remain, with new states.
  void Forget() const;
  /// Ends the answers with the largest states until the others take at most `most` bytes.
  void EndLargestAnswers(size_t most) const;
  size_t BytesLocked() const;

  const TransitionNetwork network_;
  const std::shared_ptr<const GrammarVocabulary> vocabulary_;
  mutable std::mutex mutex_;
  mutable ParseTable table_;
  mutable std::unordered_map<uint64_t, PlaceMask> place_masks_;  // by kind of state
  mutable std::unordered_map<ParseState, std::vector<uint32_t>> masks_;
  mutable size_t place_bytes_ = 0, mask_bytes_ = 0;
  mutable std::vector<Position> positions_;
  mutable MemoryCount counted_;
};

/// The parse state of one answer and its work budget: a grammar that is too ambiguous ends its own answer and delays no
/// other. THREAD: one at a time.
class GrammarMatcher {
 public:
  explicit GrammarMatcher(std::shared_ptr<const Grammar> grammar);
  GrammarMatcher(const GrammarMatcher& other);
  GrammarMatcher& operator=(const GrammarMatcher&) = delete;
  ~GrammarMatcher();

  /// Replays the text of a continued answer; the next token is not the answer's first. ERRORS: kInvalidArgument, and
  /// nothing changes, if no matching text starts with it.
  Status Append(std::string_view text);
  /// Advances by a token's text; the turn's first token loses its leading space if the tokenizer strips it. ERRORS: as
  /// Append.
  Status Take(TokenId id);
  /// Sets the bits of the allowed next tokens and clears all others. `mask`: a bit for each id of the model's
  /// vocabulary. Special tokens are never allowed. ERRORS: kInvalidArgument: the grammar exceeds the work budget of its
  /// tokens, or the answer its memory.
  Status FillMask(std::span<uint32_t> mask);
  /// The text matches as it is; it may continue.
  bool may_end() const { return may_end_; }
  bool may_continue() const { return may_continue_; }
  /// Remaining work budget, in visited places.
  int64_t work_left() const { return work_left_; }

 private:
  // REQUIRES: the grammar's lock held, for all below.
  Status Advance(std::string_view bytes);
  /// Compacts the table if it is full and grants it this answer's work. ERRORS: the answer was ended.
  Status Begin();
  /// Charges the table's work. ERRORS: it exceeds the grant.
  Status End();
  void Note();

  std::shared_ptr<const Grammar> grammar_;
  size_t position_;
  int64_t work_left_;
  bool first_ = true, may_end_ = false, may_continue_ = true;
};

}  // namespace ringside
