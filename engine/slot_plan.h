// How many slots an engine has, how much memory for their caches, and how long their windows are: a function of the
// device's memory, of the shape of a cache, and of the options.
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

/// The slots that a device has addresses for, of whole windows each (kernels/half_tiles.h).
int64_t MostSlots(const NetworkShape& network, const KvShape& shape, int64_t slab_bytes);

/// With `fits_window` lowers `memory_len` until one whole window fits into `kv_bytes` and the free memory, whichever is
/// less, in steps of a 16th or less; to 16 tokens at the least.
void FitWindow(const SlabMemory& memory, const NetworkShape& network, EngineOptions* options);

/// Fills in `slots`, at most MostSlots, and `kv_bytes`. kOverloaded: they do not fit.
Status PlanSlots(const SlabMemory& memory, const NetworkShape& network, EngineOptions* options);

}  // namespace ringside
