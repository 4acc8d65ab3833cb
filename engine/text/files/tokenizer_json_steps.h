// The steps of a tokenizer.json: normalizer, pre-tokenizer and decoder. Only for the readers of that file.
#pragma once

#include <string_view>

#include "base/status.h"
#include "engine/text/tokenizer.h"

namespace ringside {

/// Append the steps of a JSON member to data->normaliser and data->pre_tokenizer. ERRORS: kInvalidArgument, with the
/// step, if it is malformed or not supported.
Status ReadNormaliserSteps(std::string_view json, TokenizerData* data);
Status ReadPreTokenizerSteps(std::string_view json, TokenizerData* data);

/// True if the decoder drops a leading space. ERRORS: kInvalidArgument for an unsupported decoder.
Result<bool> DecoderStripsLeadingSpace(std::string_view json);

}  // namespace ringside
