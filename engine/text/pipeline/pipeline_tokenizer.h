// Tokenizers of the library `tokenizers`, and GGUF's byte-level ones: a text is cut at added tokens, normalised, cut
// into words, and each word into tokens, by merges (GPT-2, Llama 3, Gemma) or as the likeliest sequence (T5, XGLM).
// Made by MakeTokenizer only.
#pragma once

#include <memory>

#include "engine/text/tokenizer.h"
#include "engine/text/tokenizer_vocabulary.h"

namespace ringside {

/// `data` without its tokens and types, which `vocabulary` has taken. kInvalidArgument for merges of unknown tokens,
/// scores that are no numbers, or patterns and rules of normalisation that are none.
Result<std::unique_ptr<Tokenizer>> MakePipelineTokenizer(Vocabulary vocabulary, const TokenizerData& data);

}  // namespace ringside
