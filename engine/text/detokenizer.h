// Token ids to text, one at a time, never emitting half a UTF-8 character: bytes of an unfinished character wait for
// the next token; bytes that can no longer become one turn into U+FFFD. One per answer; one thread at a time.
#pragma once

#include <string>

#include "engine/text/tokenizer.h"

namespace ringside {

class Detokenizer {
 public:
  /// `tokenizer` must outlive it. `at_start`: the first token begins the text, so a SentencePiece leading space goes.
  explicit Detokenizer(const Tokenizer& tokenizer, bool at_start = false);

  /// The text that `id` completes: whole UTF-8 characters, possibly none.
  std::string Push(TokenId id);
  /// What is left at the end of the answer: U+FFFD for an unfinished character, or nothing.
  std::string Finish();

 private:
  const Tokenizer& tokenizer_;
  bool at_start_;
  std::string pending_;
};

}  // namespace ringside
