// Decides on the host whether attention_wide.cuh computes an attention.
// THREAD: one.
#pragma once

#include "kernels/backend.h"
#include "kernels/cuda/attention/attention_plan.h"
#include "kernels/cuda/device_traits.h"
#include "kernels/cuda/memory/device_memory.h"

namespace ringside::cuda {

/// Whether the kernel applies to a call whose plan has these sizes: no score modifiers but query scales, and aligned
/// rows and tiles.
bool AllowsWideAttention(const DeviceTraits& on, const AttentionArgs& args, const AttentionPlan& sizes);
/// Checks that the slabs are where the kernel can address them.
void CheckWideSlabs(const AttentionArgs& args, const DeviceMemory::Range& range);

}  // namespace ringside::cuda
