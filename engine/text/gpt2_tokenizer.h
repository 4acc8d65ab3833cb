// The tokenizer of GPT-2, OPT and Megatron, where it is two texts: vocab.json and merges.txt.
#pragma once

#include <string_view>

#include "base/status.h"
#include "engine/text/tokenizer.h"

namespace ringside {

/// kInvalidArgument, saying what, for texts that are none. What begins and ends a text they do not tell.
Result<TokenizerData> ReadGpt2Tokenizer(std::string_view vocab, std::string_view merges);

}  // namespace ringside
