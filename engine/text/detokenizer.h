// Incremental detokenizer. It never emits part of a UTF-8 character: bytes of an incomplete character wait for the next
// token, and bytes that cannot be completed become U+FFFD. One per answer. THREAD: one at a time.
#pragma once

#include <string>

#include "engine/text/tokenizer.h"

namespace ringside {

class Detokenizer {
 public:
  /// `at_start`: the first token starts the text, so SentencePiece's leading space is dropped. REQUIRES: `tokenizer`
  /// outlives it.
  explicit Detokenizer(const Tokenizer& tokenizer, bool at_start = false);

  /// The text that `id` completes: whole UTF-8 characters, possibly none.
  std::string Push(TokenId id);
  /// The remainder at the end of the answer: U+FFFD for an incomplete character, or nothing.
  std::string Finish();

 private:
  const Tokenizer& tokenizer_;
  bool at_start_;
  std::string pending_;
};

}  // namespace ringside
