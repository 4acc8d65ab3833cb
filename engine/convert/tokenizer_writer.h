// Writes a tokenizer in another format. Pure functions. THREAD: any.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/convert/network_kind.h"
#include "engine/sampling/sampling.h"
#include "engine/text/tokenizer.h"

namespace ringside {

/// Names and texts of a folder's files: tokenizer.json, tokenizer_config.json, generation_config.json. ERRORS:
/// kInvalidArgument for a SentencePiece tokenizer.
Result<std::vector<std::pair<std::string, std::string>>> TokenizerFiles(const TokenizerData& data,
                                                                        const std::string& chat_template,
                                                                        const SamplingParams* sampling);

/// The keys of a GGUF file. ERRORS: kInvalidArgument, with the name, for a pre-tokenizer without a GGUF name, and for a
/// SentencePiece tokenizer without scores.
Result<std::vector<GgufEntry>> GgufTokenizer(const TokenizerData& data, const std::string& chat_template);
std::vector<GgufEntry> GgufSampling(const SamplingParams& sampling);

/// The first difference between two tokenizers; "" if no text and no answer can show one.
std::string DifferentTokenizer(const TokenizerData& a, const TokenizerData& b);

}  // namespace ringside
