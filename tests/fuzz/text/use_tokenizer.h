// The server's uses of a tokenizer read from a file.
#pragma once

#include "engine/text/detokenizer.h"
#include "engine/text/tokenizer.h"
#include "tests/fuzz/fuzz_target.h"

namespace ringside {

inline void UseTokenizer(TokenizerData data) {
  const Result<std::unique_ptr<Tokenizer>> made = MakeTokenizer(std::move(data));
  if (!made.ok()) return;
  const Tokenizer& tokenizer = **made;
  const TextPiece pieces[] = {
      {"<|im_start|>user\n", true}, {"Hi 123 \xc3\xa9\xf0\x9f\x98\x80<s>  x\n\xff", false}, {"</s>", true}};
  Detokenizer detokenizer(tokenizer, true);
  for (const TokenId id : tokenizer.EncodeAll(pieces)) {
    Require(id >= 0 && id < tokenizer.vocab_size(), "an id is of the vocabulary");
    (void)tokenizer.TokenName(id);
    (void)detokenizer.Push(id);
  }
  (void)detokenizer.Finish();
  (void)tokenizer.FindSpecial("<|im_end|>");
}

}  // namespace ringside
