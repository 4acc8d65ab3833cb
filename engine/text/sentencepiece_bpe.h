// The SentencePiece-style BPE tokenizer (Llama 2, Mistral, Gemma; Kudo and Richardson 2018): spaces become U+2581,
// characters are merged by score (or by a list of merges), what is in no token is spelled in bytes. Made by
// MakeTokenizer only.
#pragma once

#include <memory>

#include "engine/text/tokenizer.h"
#include "engine/text/tokenizer_vocabulary.h"

namespace ringside {

/// `data` without its tokens and types, which `vocabulary` has taken. kInvalidArgument for neither merges nor scores,
/// or for merges of unknown tokens.
Result<std::unique_ptr<Tokenizer>> MakeSentencePieceBpe(Vocabulary vocabulary, const TokenizerData& data);

}  // namespace ringside
