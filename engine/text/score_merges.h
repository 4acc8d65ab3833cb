// The merges of a tokenizer: a file's list, or where it has none: two neighbours merge where together they are a token,
// and the better its score, the sooner (SentencePiece, tiktoken). Pure; any thread.
#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "engine/text/tokenizer_merge.h"
#include "engine/text/tokenizer_vocabulary.h"

namespace ringside {

// Symbols: tokens, and characters that are only part of tokens, with ids past the vocabulary.
class SymbolTable {
 public:
  using Characters = std::unordered_map<uint32_t, TokenId>;

  explicit SymbolTable(const Vocabulary& vocabulary);

  /// The symbol of a token or single character, or -1; with `make`, a character gets a symbol if it has none.
  TokenId Find(std::string_view name, bool make);

  const std::unordered_map<std::string_view, TokenId>& tokens() const { return by_name_; }
  const Characters& characters() const { return characters_; }

 private:
  std::unordered_map<std::string_view, TokenId> by_name_;
  Characters characters_;
  TokenId next_;
};

/// The merges of `data` by id: rank = place in the list. A merge that would read or write a special token is left out.
/// kInvalidArgument for one that names no token.
Result<MergeTable> MakeMergeTable(const Vocabulary& vocabulary, const TokenizerData& data);

/// kInvalidArgument where there is not one score a token.
Result<MergeTable> MergesByScore(const Vocabulary& vocabulary, const std::vector<double>& scores, SymbolTable* symbols);

}  // namespace ringside
