// What networks do in a row, and devices in one kernel or two: a norm, a layer of gates and ups, their product.
#pragma once

#include <cstdint>

#include "kernels/backend.h"
#include "tests/kernels/reference.h"

namespace ringside::testing {

/// Fails the test unless norm, sums and products are what the definitions give: norm and layer three times, then with
/// their product three times - the third time it is a graph, where the device has graphs. `tolerance`: of sums, by
/// their terms' magnitudes. `in_e4m3`: sums take their rows rounded to E4M3.
void ExpectNormLinearAndActivation(Backend& backend, int64_t rows, const RandomWeight& gate, const RandomWeight& up,
                                   double tolerance, bool in_e4m3 = false);

}  // namespace ringside::testing
