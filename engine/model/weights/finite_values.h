// Whether stored weights are finite numbers. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/tensor.h"

namespace ringside {

/// False if a value, or the scale of a block, is NaN, infinite or, of MXFP4 and E4M3, too large for its products.
/// REQUIRES: `bytes` are whole blocks of a type that files have. Reads each byte at most once, in vectors.
bool AreFinite(DType dtype, std::span<const std::byte> bytes);

}  // namespace ringside
