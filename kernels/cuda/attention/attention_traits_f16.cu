// The tiled attention kernels of float16 caches for layers whose scores are more than scaled products.
#include "kernels/cuda/attention/attention_chunk.cuh"

namespace ringside::cuda {

void LaunchTraitsF16(const Launcher& on, const AttentionPlan& plan) { LaunchTiledOfType<__half, true>(on, plan); }

}  // namespace ringside::cuda
