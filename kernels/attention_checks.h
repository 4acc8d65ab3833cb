// What every backend demands of an attention operation before it touches memory. Aborts otherwise; any thread.
#pragma once

#include "kernels/backend.h"

namespace ringside {

/// Whether the rows of such a call have queries alone: their keys and values are an encoder's, which are there.
bool AskOnly(const AttentionArgs& args);

/// Shapes that fit one another, heads of up to `max_head_dim`, segments inside the step, and no row that a later one of
/// its chunk has overwritten. The element types of activations are the backend's own business.
void CheckAttention(const AttentionArgs& args, int64_t max_head_dim);

}  // namespace ringside
