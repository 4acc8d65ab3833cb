// The tiled attention kernels for bfloat16 caches (attention_tiled.cuh, attention_chunk.cuh).
#include "kernels/cuda/attention/attention_chunk.cuh"

namespace ringside::cuda {

void LaunchTiledBf16(const Launcher& on, const AttentionPlan& plan) {
  LaunchTiledOfType<__nv_bfloat16, false>(on, plan);
}
int ResidentBf16(const Launcher& on, int64_t head_dim, bool chunk, int splits) {
  return ResidentOfType<__nv_bfloat16>(on, head_dim, chunk, splits);
}

}  // namespace ringside::cuda
