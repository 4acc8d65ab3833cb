// Tokenizers of the `tokenizers` library, and GGUF's byte-level ones: a text is split at added tokens, normalized,
// split into words, and each word into tokens, by merges (GPT-2, Llama 3, Gemma) or as the likeliest sequence (T5,
// XGLM). Made by MakeTokenizer only.
#pragma once

#include <memory>

#include "engine/text/tokenizer.h"
#include "engine/text/tokenizer_vocabulary.h"

namespace ringside {

/// `vocabulary` has taken the tokens and types out of `data`. ERRORS: kInvalidArgument for merges of unknown tokens,
/// scores that are not numbers, or malformed patterns or normalization rules.
Result<std::unique_ptr<Tokenizer>> MakePipelineTokenizer(Vocabulary vocabulary, const TokenizerData& data);

}  // namespace ringside
