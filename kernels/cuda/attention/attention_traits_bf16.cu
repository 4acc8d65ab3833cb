// The tiled attention kernels of bfloat16 caches for layers whose scores are more than scaled products.
#include "kernels/cuda/attention/attention_chunk.cuh"

namespace ringside::cuda {

void LaunchTraitsBf16(const Launcher& on, const AttentionPlan& plan) {
  LaunchTiledOfType<__nv_bfloat16, true>(on, plan);
}

}  // namespace ringside::cuda
