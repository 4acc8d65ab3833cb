// The fingerprint that decides if two models' caches are interchangeable. Computed once at load; pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "cache/snapshot.h"
#include "engine/families/model_spec.h"
#include "engine/model/weights/digest.h"
#include "engine/text/tokenizer.h"

namespace ringside {

/// Incremented with every change after which equal weights and tokens give other rows: the order or rounding of an
/// operation, angles, the layout of a tile. Old snapshots are then recomputed. A test compares the rows of fixed inputs
/// with recorded ones, so that such a change cannot go unnoticed (tests/engine/model/golden_rows_test.cpp).
inline constexpr int64_t kArithmeticVersion = 10;

/// All hyper-parameters except the name, which does not affect results.
void AddSpec(const ModelSpec& spec, Digest* digest);

/// `weights`: digest of the tensors and hyper-parameters. `activations`, `weight_type`: the backend's types, which
/// distinguish rows of a CPU from those of a GPU, and quantized weights from others.
Fingerprint FingerprintOf(std::span<const uint8_t, 16> weights, const TokenizerData& tokenizer,
                          std::string_view chat_template, DType activations, DType weight_type);

/// The fingerprint under an adapter with digest `adapter`.
Fingerprint FingerprintUnder(const Fingerprint& model, std::span<const uint8_t, 16> adapter);

}  // namespace ringside
