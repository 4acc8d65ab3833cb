// An operation sequence of networks, which devices fuse into one kernel or two: a norm, a gate-up layer, their product.
#pragma once

#include <cstdint>

#include "kernels/backend.h"
#include "tests/kernels/reference.h"

namespace ringside::testing {

/// Fails the test unless norm, sums and products match the definitions: norm and layer three times, then also their
/// product three times - the third run is a graph replay, if the device has graphs. `tolerance`: of sums, relative to
/// their terms' magnitudes. `in_e4m3`: the rows are rounded to E4M3 first.
void ExpectNormLinearAndActivation(Backend& backend, int64_t rows, const RandomWeight& gate, const RandomWeight& up,
                                   double tolerance, bool in_e4m3 = false);

}  // namespace ringside::testing
