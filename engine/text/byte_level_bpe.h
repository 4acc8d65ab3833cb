// The byte-level BPE tokenizer (GPT-2, Llama 3, Qwen, SmolLM; Sennrich et al. 2016 on bytes): text is cut into words by
// regular expressions, each word's bytes are merged pair by pair. Made by MakeTokenizer only.
#pragma once

#include <memory>

#include "engine/text/tokenizer.h"
#include "engine/text/tokenizer_vocabulary.h"

namespace ringside {

/// `data` without its tokens and types, which `vocabulary` has taken. kInvalidArgument for a merge of unknown tokens or
/// a pattern that is none.
Result<std::unique_ptr<Tokenizer>> MakeByteLevelBpe(Vocabulary vocabulary, const TokenizerData& data);

/// The merges of `data` by id: rank = place in the list. A merge that would read or write a special token is left out.
/// kInvalidArgument for one that names no token.
class MergeTable;
Result<MergeTable> MakeMergeTable(const Vocabulary& vocabulary, const TokenizerData& data);

}  // namespace ringside
