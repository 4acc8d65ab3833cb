// The tiled attention kernels for float16 caches of layers with score modifiers.
#include "kernels/cuda/attention/attention_chunk.cuh"

namespace ringside::cuda {

void LaunchTraitsF16(const Launcher& on, const AttentionPlan& plan) { LaunchTiledOfType<__half, true>(on, plan); }

}  // namespace ringside::cuda
