// SentencePiece tokenizers (Kudo and Richardson 2018): text is normalized, spaces become U+2581, and the result is
// split into pieces, by merges (Llama 2, Mistral, Gemma) or as the likeliest sequence (T5, XGLM); characters in no
// piece fall back to bytes. Made by MakeTokenizer only.
#pragma once

#include <memory>

#include "engine/text/tokenizer.h"
#include "engine/text/tokenizer_vocabulary.h"

namespace ringside {

/// `vocabulary` has taken the tokens and types out of `data`. ERRORS: kInvalidArgument without merges and scores, for
/// merges of unknown tokens, scores that are not numbers, or malformed normalization rules.
Result<std::unique_ptr<Tokenizer>> MakeSentencePiece(Vocabulary vocabulary, const TokenizerData& data);

}  // namespace ringside
