// Preconditions of an attention operation that every backend checks before it touches memory. A violation aborts.
// THREAD: any.
#pragma once

#include "kernels/backend.h"

namespace ringside {

/// Whether the rows of this call have queries alone: their keys and values are an encoder's and already stored.
bool HasQueriesOnly(const AttentionArgs& args);

/// Checks that shapes are consistent, heads have at most `max_head_dim` dimensions, segments are inside the step, and
/// no row of a chunk overwrites a position that an earlier row still sees. The backend checks the element types of
/// activations.
void CheckAttention(const AttentionArgs& args, int64_t max_head_dim);

}  // namespace ringside
