// Preconditions of a recurrent mixer that every backend checks before it touches memory. A violation aborts.
// THREAD: any.
#pragma once

#include "kernels/backend.h"

namespace ringside {

/// Checks that shapes are consistent, segments cover the step's rows, each segment has the boundary that it continues,
/// and it stores at least the last boundary that it reaches. The backend checks the element types of activations.
void CheckRecurrence(const RecurrenceArgs& args);

}  // namespace ringside
