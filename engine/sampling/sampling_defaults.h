// How a model's makers want it sampled where nobody says otherwise. Read once at start; any thread.
#pragma once

#include <string>

#include "base/status.h"
#include "engine/sampling/sampling.h"

namespace ringside {

/// Temperature, top_p, top_k, min_p and repetition_penalty from the folder's generation_config.json or the GGUF file's
/// `general.sampling.*`; a temperature of 0.7 and a top_p of 0.9 where these say nothing. `path` as of Model::Load.
/// kInvalidArgument, naming file and value, for one out of range or of another type; kCorruption, kIo.
Result<SamplingParams> ReadSamplingDefaults(const std::string& path);
/// What it gives where a model says nothing.
SamplingParams UsualSampling();

}  // namespace ringside
