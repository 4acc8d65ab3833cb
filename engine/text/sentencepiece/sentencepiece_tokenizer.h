// The tokenizers of SentencePiece (Kudo and Richardson 2018): text is normalised,
// spaces become U+2581, and it is cut into pieces, by merges (Llama 2, Mistral, Gemma) or as the likeliest sequence of
// them (T5, XGLM); what is in no piece is spelled in bytes. Made by MakeTokenizer only.
#pragma once

#include <memory>

#include "engine/text/tokenizer.h"
#include "engine/text/tokenizer_vocabulary.h"

namespace ringside {

/// `data` without its tokens and types, which `vocabulary` has taken. kInvalidArgument for neither merges nor scores,
/// for merges of unknown tokens, scores that are no numbers, or rules of normalisation that are none.
Result<std::unique_ptr<Tokenizer>> MakeSentencePiece(Vocabulary vocabulary, const TokenizerData& data);

}  // namespace ringside
