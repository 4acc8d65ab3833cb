// The tiled attention kernels for E4M3 caches (attention_tiled.cuh, attention_chunk.cuh).
#include "kernels/cuda/attention/attention_chunk.cuh"

namespace ringside::cuda {

void LaunchTiledF8(const Launcher& on, const AttentionPlan& plan) { LaunchTiledOfType<__nv_fp8_e4m3, false>(on, plan); }
int ResidentF8(const Launcher& on, int64_t head_dim, bool chunk, int splits) {
  return ResidentOfType<__nv_fp8_e4m3>(on, head_dim, chunk, splits);
}

}  // namespace ringside::cuda
