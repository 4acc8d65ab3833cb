// Checks stored weights for finite values. Pure functions. THREAD: any.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/tensor.h"

namespace ringside {

/// False if a value or a block scale is NaN, infinite, or (MXFP4 and E4M3) too large for its products. Reads each byte
/// at most once, in vectors. REQUIRES: `bytes` are whole blocks of a file's type.
bool AreFinite(DType dtype, std::span<const std::byte> bytes);

}  // namespace ringside
