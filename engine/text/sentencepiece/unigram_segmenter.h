// Text as the likeliest sequence of pieces, each piece with a probability of its own (Kudo 2018, "Subword
// Regularization", 3.2), found by Viterbi's algorithm. Owned by a tokenizer; immutable after Make, any thread.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/text/byte_tree.h"
#include "engine/text/sentencepiece/piece_output.h"

namespace ringside {

class UnigramSegmenter {
 public:
  /// kInvalidArgument where there is not one finite score a token.
  static Result<UnigramSegmenter> Make(const Vocabulary& vocabulary, const TokenizerData& data);

  /// The pieces of `text` (well-formed UTF-8, U+2581 for spaces). A character that no path of pieces covers is unknown,
  /// at 10 less than the least likely piece. Of equal paths the first found. False if there is no room for it. O(n k)
  /// for n bytes and pieces of up to k bytes, of which the text may begin as far at each of its places; 16 n bytes.
  bool Segment(std::string_view text, PieceOutput* out) const;

 private:
  ByteTree pieces_;
  std::vector<double> scores_;  // by id: logarithms of probabilities
  double unknown_score_ = 0;
  bool single_precision_ = false;  // of a path's score, as SentencePiece has it
};

}  // namespace ringside
