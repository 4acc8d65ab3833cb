// Sizes an engine: slots, cache memory and window, from the device's memory, the shape of a cache and the options.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "engine/engine_options.h"
#include "engine/model/network.h"
#include "kernels/kv_shape.h"

namespace ringside {

class SlabMemory;

/// The shape of a cache of this network.
KvShape CacheShape(const NetworkShape& network, const EngineOptions& options);

/// Slots with a whole window each for which the device has address space (kernels/half_tiles.h).
int64_t MaxSlots(const NetworkShape& network, const KvShape& shape, int64_t slab_bytes);

/// With `fits_window`, lowers `memory_len` in steps of at most a 16th until one whole window fits into `kv_bytes` and
/// the free memory; at least 16 tokens.
void FitWindow(const SlabMemory& memory, const NetworkShape& network, EngineOptions* options);

/// Sets `slots` (at most MaxSlots) and `kv_bytes`. ERRORS: kOverloaded if they do not fit.
Status PlanSlots(const SlabMemory& memory, const NetworkShape& network, EngineOptions* options);

}  // namespace ringside
