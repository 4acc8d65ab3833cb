// The tiled attention kernels for bfloat16 caches of layers with score modifiers.
#include "kernels/cuda/attention/attention_chunk.cuh"

namespace ringside::cuda {

void LaunchTraitsBf16(const Launcher& on, const AttentionPlan& plan) {
  LaunchTiledOfType<__nv_bfloat16, true>(on, plan);
}

}  // namespace ringside::cuda
