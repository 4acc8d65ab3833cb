// The tokenizer of GPT-2, OPT and Megatron in its two-file form: vocab.json and merges.txt.
#pragma once

#include <string_view>

#include "base/status.h"
#include "engine/text/tokenizer.h"

namespace ringside {

/// Sets neither BOS nor EOS, which these files do not name. ERRORS: kInvalidArgument, with the malformed part.
Result<TokenizerData> ReadGpt2Tokenizer(std::string_view vocab, std::string_view merges);

}  // namespace ringside
