// The tiled attention kernels of E4M3 caches for layers whose scores are more than scaled products.
#include "kernels/cuda/attention/attention_chunk.cuh"

namespace ringside::cuda {

void LaunchTraitsF8(const Launcher& on, const AttentionPlan& plan) { LaunchTiledOfType<__nv_fp8_e4m3, true>(on, plan); }

}  // namespace ringside::cuda
