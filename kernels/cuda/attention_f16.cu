// The tiled attention kernels of float16 caches (attention_tiled.cuh), and which of the two element types is meant.
#include "kernels/cuda/attention_tiled.cuh"

namespace ringside::cuda {

void LaunchTiledBf16(const Launcher& on, const AttentionPlan& plan);  // attention_bf16.cu

bool HasTiledAttention(DType cache, int64_t head_dim) {
  const bool size = head_dim == 64 || head_dim == 80 || head_dim == 96 || head_dim == 128 || head_dim == 256;
  return size && (cache == DType::kF16 || cache == DType::kBF16);
}

void LaunchTiledAttention(const Launcher& on, const AttentionPlan& plan) {
  if (plan.cache == DType::kBF16) return LaunchTiledBf16(on, plan);
  CHECK(plan.cache == DType::kF16);
  LaunchTiledOfType<__half>(on, plan);
}

}  // namespace ringside::cuda
