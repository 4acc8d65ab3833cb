// BPE on characters: merges the pair with the best score or lowest rank first (Sennrich et al. 2016, as in
// SentencePiece). Owned by a tokenizer; immutable after Make. THREAD: any.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "base/status.h"
#include "engine/text/score_merges.h"
#include "engine/text/sentencepiece/piece_output.h"

namespace ringside {

class MergeSegmenter {
 public:
  /// ERRORS: kInvalidArgument without merges and scores, or for merges of unknown tokens.
  static Result<MergeSegmenter> Make(const Vocabulary& vocabulary, const TokenizerData& data);

  /// Appends the pieces of `text` (well-formed UTF-8, U+2581 for spaces). False if there is no room. O(n log n).
  bool Segment(std::string_view text, PieceOutput* out) const;

 private:
  MergeSegmenter(int64_t vocabulary, MergeTable merges, const SymbolTable& symbols);

  int64_t vocabulary_;  // number of tokens
  MergeTable merges_;
  SymbolTable::Characters characters_;
  std::unordered_map<TokenId, std::string> spelling_;  // of ids past the vocabulary
  std::unordered_map<std::string, TokenId> whole_;     // only if whole words are looked up
};

}  // namespace ringside
