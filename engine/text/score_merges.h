// The merges of a tokenizer: a file's list, or, without one, all pairs of tokens whose concatenation is a token, ranked
// by its score (SentencePiece, tiktoken). Pure. THREAD: any.
#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "engine/text/tokenizer_merge.h"
#include "engine/text/tokenizer_vocabulary.h"

namespace ringside {

// Symbols: tokens, and characters that occur only inside tokens, with ids past the vocabulary.
class SymbolTable {
 public:
  using Characters = std::unordered_map<uint32_t, TokenId>;

  explicit SymbolTable(const Vocabulary& vocabulary);

  /// The symbol of a token or single character, or -1; with `make`, creates one for an unknown character.
  TokenId Find(std::string_view name, bool make);

  const std::unordered_map<std::string_view, TokenId>& tokens() const { return by_name_; }
  const Characters& characters() const { return characters_; }

 private:
  std::unordered_map<std::string_view, TokenId> by_name_;
  Characters characters_;
  TokenId next_;
};

/// The merges of `data` by id; rank = index in the list. Skips a merge that reads or writes a special token. ERRORS:
/// kInvalidArgument for a merge with an unknown token.
Result<MergeTable> MakeMergeTable(const Vocabulary& vocabulary, const TokenizerData& data);

/// ERRORS: kInvalidArgument unless every token has exactly one score.
Result<MergeTable> MergesByScore(const Vocabulary& vocabulary, const std::vector<double>& scores, SymbolTable* symbols);

}  // namespace ringside
