// The steps of a tokenizer.json: its normaliser, pre-tokenizer and decoder. For the readers of that file only.
#pragma once

#include <string_view>

#include "base/status.h"
#include "engine/text/tokenizer.h"

namespace ringside {

/// Append the steps of a JSON member to data->normaliser and data->pre_tokenizer.
/// ERRORS: kInvalidArgument, naming the step, if it is malformed or not supported.
Status ReadNormaliserSteps(std::string_view json, TokenizerData* data);
Status ReadPreTokenizerSteps(std::string_view json, TokenizerData* data);

/// Whether a text that begins with a space loses it. kInvalidArgument for a decoder that is not supported.
Result<bool> DecoderStripsLeadingSpace(std::string_view json);

}  // namespace ringside
