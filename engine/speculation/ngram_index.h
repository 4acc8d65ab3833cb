// Drafts from a timeline's own text (prompt lookup decoding: Saxena 2023): finds where the last tokens occurred before,
// because the tokens after that place often come again. A hash table of n-grams in bounded memory, extended as the
// timeline grows. One per turn, so a rewind or an edit between turns needs no repair. THREAD: engine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/text/tokenizer.h"

namespace ringside {

class NgramIndex {
 public:
  /// Lengths of the indexed n-grams, the longer one first; a match is verified and extended to at most kMaxMatched.
  static constexpr int64_t kLengths[] = {8, 3};
  static constexpr int64_t kMaxMatched = 32;
  /// Tokens that are indexed at first; of a longer timeline the last ones.
  static constexpr int64_t kMaxTokens = int64_t{1} << 16;

  /// An earlier occurrence of the last tokens of a timeline.
  struct Match {
    int64_t next = 0;     // position after it
    int64_t matched = 0;  // its length; 0 = none
  };
  /// The longest of these: the continuation of the previous match, even if one of its tokens differed, and the latest
  /// occurrence of each n-gram, unless another one has taken its place. `timeline`: the one of the previous call with
  /// tokens appended.
  Match Find(std::span<const TokenId> timeline);

  /// Bytes of the table.
  size_t bytes() const { return places_.size() * sizeof(uint32_t); }

 private:
  /// Indexes the n-grams that end before the last token.
  void Extend(std::span<const TokenId> timeline);
  /// The place of an n-gram.
  uint32_t& PlaceOf(std::span<const TokenId> ngram);

  std::vector<uint32_t> places_;  // position after the latest n-gram with this hash; 0 = none
  int64_t indexed_ = 0;           // n-grams that end at or before this position are indexed
  int64_t distance_ = 0;          // of the previous match: from its end to the end of the timeline
};

/// `count` tokens as they followed the match. A match that overlaps the end of the timeline repeats.
std::vector<TokenId> TokensAfter(std::span<const TokenId> timeline, const NgramIndex::Match& match, int64_t count);

}  // namespace ringside
