// A tokenizer as another format tells of it. Pure functions; any thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/convert/network_kind.h"
#include "engine/sampling/sampling.h"
#include "engine/text/tokenizer.h"

namespace ringside {

/// The files of a folder, name and text: tokenizer.json, tokenizer_config.json, generation_config.json.
/// kInvalidArgument for a tokenizer of SentencePiece.
Result<std::vector<std::pair<std::string, std::string>>> TokenizerFiles(const TokenizerData& data,
                                                                        const std::string& chat_template,
                                                                        const SamplingParams* sampling);

/// The keys of a GGUF file. kInvalidArgument, naming it, for a pre-tokenizer that has no name there, and for a
/// tokenizer of SentencePiece without scores.
Result<std::vector<GgufEntry>> GgufTokenizer(const TokenizerData& data, const std::string& chat_template);
std::vector<GgufEntry> GgufSampling(const SamplingParams& sampling);

/// In what two tokenizers differ; "" if in nothing that a text or an answer shows.
std::string DifferentTokenizer(const TokenizerData& a, const TokenizerData& b);

}  // namespace ringside
