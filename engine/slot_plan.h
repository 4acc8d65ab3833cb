// How many slots an engine has and how much memory for their caches: a function of the device's memory, of the shape of
// a cache, and of the options.
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

/// Fills in `slots`, at most MostSlots, and `kv_bytes`. kOverloaded: they do not fit.
Status PlanSlots(const SlabMemory& memory, const NetworkShape& network, EngineOptions* options);

}  // namespace ringside
