// The sampling parameters that a model's authors recommend, used as defaults. Read once at start. THREAD: any.
#pragma once

#include <string>

#include "base/status.h"
#include "engine/sampling/sampling.h"

namespace ringside {

/// Temperature, top_p, top_k, min_p and repetition_penalty from the folder's generation_config.json or the GGUF file's
/// `general.sampling.*`; otherwise DefaultSampling(). `path` as in Model::Load. ERRORS: kInvalidArgument, with the file
/// and the value, for one out of range or of another type; kCorruption, kIo.
Result<SamplingParams> ReadSamplingDefaults(const std::string& path);
/// Defaults for a model without recommendations: temperature 0.7 and top_p 0.9.
SamplingParams DefaultSampling();

}  // namespace ringside
