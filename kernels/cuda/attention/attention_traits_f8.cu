// The tiled attention kernels for E4M3 caches of layers with score modifiers.
#include "kernels/cuda/attention/attention_chunk.cuh"

namespace ringside::cuda {

void LaunchTraitsF8(const Launcher& on, const AttentionPlan& plan) { LaunchTiledOfType<__nv_fp8_e4m3, true>(on, plan); }

}  // namespace ringside::cuda
