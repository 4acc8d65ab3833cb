// What tells two models' caches apart. Computed once at load; pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "cache/snapshot.h"
#include "engine/families/model_spec.h"
#include "engine/model/weights/digest.h"
#include "engine/text/tokenizer.h"

namespace ringside {

/// Raised with every change after which the same weights and tokens give other rows: an operation's order or rounding,
/// angles, the place of an element in a tile. Old snapshots are computed again then. A test compares the rows of fixed
/// inputs with recorded ones, so that no such change goes unnoticed (tests/engine/model/golden_rows_test.cpp).
inline constexpr int64_t kArithmeticVersion = 10;

/// All hyper-parameters but the name, which no number depends on.
void AddSpec(const ModelSpec& spec, Digest* digest);

/// `weights`: a digest of the tensors and hyper-parameters. `activations` and `weight_type`: the backend's, which tell
/// a CPU's rows from a GPU's, and those of quantised weights.
Fingerprint FingerprintOf(std::span<const uint8_t, 16> weights, const TokenizerData& tokenizer,
                          std::string_view chat_template, DType activations, DType weight_type);

/// The fingerprint of what is computed under an adapter, of which `adapter` is a digest.
Fingerprint FingerprintUnder(const Fingerprint& model, std::span<const uint8_t, 16> adapter);

}  // namespace ringside
