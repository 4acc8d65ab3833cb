// Text cut into pieces by merging characters, always the pair with the best score or the first rank (Sennrich et al.
// 2016, as SentencePiece does it on characters). Owned by a tokenizer; immutable after Make, any thread.
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
  /// kInvalidArgument for neither merges nor scores, or for merges of unknown tokens.
  static Result<MergeSegmenter> Make(const Vocabulary& vocabulary, const TokenizerData& data);

  /// The pieces of `text` (well-formed UTF-8, U+2581 for spaces). False if there is no room for it. O(n log n).
  bool Segment(std::string_view text, PieceOutput* out) const;

 private:
  MergeSegmenter(int64_t vocabulary, MergeTable merges, const SymbolTable& symbols);

  int64_t vocabulary_;  // tokens
  MergeTable merges_;
  SymbolTable::Characters characters_;
  std::unordered_map<TokenId, std::string> spelling_;  // of ids past the vocabulary
  std::unordered_map<std::string, TokenId> whole_;     // only where whole words are looked up
};

}  // namespace ringside
