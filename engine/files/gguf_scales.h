// Factors of whole matrices that GGUF files store as separate tensors.
#pragma once

#include <vector>

#include "base/status.h"
#include "engine/files/file_tensor.h"

namespace ringside {

/// Joins each X.weight in NVFP4 with X.scale, a float32 factor or one per expert, if the file has it; scales of inputs
/// (X.input_scale) are dropped.
/// ERRORS: kCorruption, with the name, for a misshapen factor, or one that is negative or not finite.
Status JoinGgufScales(std::vector<FileTensor>* tensors);

}  // namespace ringside
