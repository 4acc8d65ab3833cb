// A grammar ready for use: which tokens may come next in an answer that must match it. One is shared by all answers
// under the same grammar, and what one of them finds out is known to the others. Thread-safe: one lock, held for a
// token at a time.
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
  /// Takes time in proportion to the grammar and the vocabulary: on a worker. Errors as TransitionNetwork::Compile.
  /// `memory`, if not null, counts the grammar's bytes.
  static Result<std::shared_ptr<const Grammar>> Make(const GrammarSource& source,
                                                     std::shared_ptr<const GrammarVocabulary> vocabulary,
                                                     std::shared_ptr<GrammarMemory> memory = nullptr);
  Grammar(const Grammar&) = delete;
  Grammar& operator=(const Grammar&) = delete;

  /// Memory held, about; grows with use up to a limit.
  size_t bytes() const;
  /// The part that does not grow.
  size_t compiled_bytes() const { return network_.bytes(); }

 private:
  friend class GrammarMatcher;

  /// The tokens that a place in the network takes whatever comes behind its rule, and those of which that depends.
  struct PlaceMask {
    std::vector<uint32_t> bits;  // a bit a token; or, where these are few,
    std::vector<TokenId> ids;
    TokenTrie open;  // those that lead out of the rule
    size_t bytes() const { return 128 + bits.capacity() * 4 + ids.capacity() * 4 + open.bytes(); }
  };
  /// The parse state of one answer.
  struct Position {
    ParseState state = kDeadParse;
    bool used = false;
    bool too_deep = false;  // its state alone takes too much memory: it was given up
  };

  Grammar(TransitionNetwork network, std::shared_ptr<const GrammarVocabulary> vocabulary,
          std::shared_ptr<GrammarMemory> memory);
  /// Precomputes the masks that are dear: those of the beginning, and of places that take most characters.
  void Warm();

  // Under the lock.
  const PlaceMask* MaskOf(StateId place) const;
  void Walk(const TokenTrie& trie, ParseState from, std::span<uint32_t> mask) const;
  Status FillMask(ParseState state, bool first, std::span<uint32_t> mask) const;
  size_t AddPosition(ParseState state) const;
  /// Drops states that can be derived again once they take too much memory. Positions stay, with other states.
  void Forget() const;
  /// Ends the answers with the largest states until the others take at most `most` bytes.
  void GiveUpLargest(size_t most) const;
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

/// The parse state of one answer, and the work that it may still spend: a grammar that is too ambiguous ends its own
/// answer and delays no other. THREAD: one at a time.
class GrammarMatcher {
 public:
  explicit GrammarMatcher(std::shared_ptr<const Grammar> grammar);
  GrammarMatcher(const GrammarMatcher& other);
  GrammarMatcher& operator=(const GrammarMatcher&) = delete;
  ~GrammarMatcher();

  /// Takes the text of an answer that continues; its next token is not its first. ERRORS: kInvalidArgument, with
  /// nothing changed, if no matching text begins with it.
  Status Append(std::string_view text);
  /// Takes a token's text; the turn's first loses its leading space where the tokenizer says so. Errors as above.
  Status Take(TokenId id);
  /// Sets the bits of the tokens that may come next; `mask` has one for each id of the model's vocabulary, cleared or
  /// not. Special tokens are never among them. kInvalidArgument: the grammar needs more work than its tokens may take,
  /// or the answer more memory.
  Status FillMask(std::span<uint32_t> mask);
  /// The text matches as it stands; and it may be longer.
  bool may_end() const { return may_end_; }
  bool may_go_on() const { return may_go_on_; }
  /// Work that may still be done, in places looked at.
  int64_t work_left() const { return work_left_; }

 private:
  // Under the grammar's lock.
  Status Advance(std::string_view bytes);
  /// Compacts the table if it is full and grants it this answer's work. An error if the answer was ended.
  Status Begin();
  /// Charges the table's work. An error if it exceeds the grant.
  Status End();
  void Note();

  std::shared_ptr<const Grammar> grammar_;
  size_t position_;
  int64_t work_left_;
  bool first_ = true, may_end_ = false, may_go_on_ = true;
};

}  // namespace ringside
