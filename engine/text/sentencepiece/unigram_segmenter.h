// The likeliest segmentation of a text under a unigram model (Kudo 2018, "Subword Regularization", 3.2), by the Viterbi
// algorithm. Owned by a tokenizer; immutable after Make. THREAD: any.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/text/byte_tree.h"
#include "engine/text/sentencepiece/piece_output.h"

namespace ringside {

class UnigramSegmenter {
 public:
  /// ERRORS: kInvalidArgument unless every token has exactly one finite score.
  static Result<UnigramSegmenter> Make(const Vocabulary& vocabulary, const TokenizerData& data);

  /// Appends the pieces of `text` (well-formed UTF-8, U+2581 for spaces). A character that no piece covers is unknown,
  /// at 10 below the lowest score. Ties: the first path found. False if there is no room. O(n k) time for n bytes and
  /// prefixes of pieces up to k bytes; 16 n bytes.
  bool Segment(std::string_view text, PieceOutput* out) const;

 private:
  ByteTree pieces_;
  std::vector<double> scores_;  // by id: log probabilities
  double unknown_score_ = 0;
  bool single_precision_ = false;  // rounds a path's score to float, as SentencePiece does
};

}  // namespace ringside
