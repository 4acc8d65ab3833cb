// What tells two models' caches apart. Computed once at load; pure functions.
#pragma once

#include <span>
#include <string_view>

#include "cache/snapshot.h"
#include "engine/text/tokenizer.h"

namespace ringside {

/// `weights`: a digest of the tensors and hyper-parameters. `activations` and `weight_type`: the backend's, which tell
/// a CPU's rows from a GPU's, and those of quantised weights.
Fingerprint FingerprintOf(std::span<const uint8_t, 16> weights, const TokenizerData& tokenizer,
                          std::string_view chat_template, DType activations, DType weight_type);

}  // namespace ringside
