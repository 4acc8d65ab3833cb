// Prints which CUDA kernels a linear layer takes, without a GPU: `ringside-server --explain-kernels`.
// THREAD: any.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace ringside {

/// The plan of a layer as lines of a name and a value. `layer` is ROWS,K,N,TYPE and any of these, separated by commas:
/// a compute capability (9.0), f16 (activations; bf16 otherwise), norm, gelu, gelu-erf, gate-up, accumulate,
/// deterministic, and N:TYPE, the next layer with the same rows. N may be a sum (4096+1024+1024) of a layer's matrices.
/// TYPE is f16, bf16, int8, fp8, fp8-blocks (a scale per 128 x 128), or a GGUF type with blocks such as Q4_K.
/// ERRORS: kInvalidArgument with the word at fault.
Result<std::string> ExplainKernels(std::string_view layer);

}  // namespace ringside
