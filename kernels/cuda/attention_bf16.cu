// The tiled attention kernels of bfloat16 caches (attention_tiled.cuh).
#include "kernels/cuda/attention_tiled.cuh"

namespace ringside::cuda {

void LaunchTiledBf16(const Launcher& on, const AttentionPlan& plan) { LaunchTiledOfType<__nv_bfloat16>(on, plan); }

}  // namespace ringside::cuda
