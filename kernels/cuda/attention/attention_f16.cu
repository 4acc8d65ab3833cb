// The tiled attention kernels for float16 caches (attention_tiled.cuh, attention_chunk.cuh), and the dispatch over the
// three element types.
#include "kernels/cuda/attention/attention_chunk.cuh"

namespace ringside::cuda {

void LaunchTiledBf16(const Launcher& on, const AttentionPlan& plan);  // attention_bf16.cu
int ResidentBf16(const Launcher& on, int64_t head_dim, bool chunk, int splits);

void LaunchTiledF8(const Launcher& on, const AttentionPlan& plan);  // attention_f8.cu
int ResidentF8(const Launcher& on, int64_t head_dim, bool chunk, int splits);

void LaunchTraitsF16(const Launcher& on, const AttentionPlan& plan);   // attention_traits_f16.cu
void LaunchTraitsBf16(const Launcher& on, const AttentionPlan& plan);  // attention_traits_bf16.cu
void LaunchTraitsF8(const Launcher& on, const AttentionPlan& plan);    // attention_traits_f8.cu

bool HasTiledAttention(const AttentionPlan& plan) {
  const int64_t d = plan.head_dim;
  const bool size = d == 64 || d == 80 || d == 96 || d == 128 || d == 256;
  const bool type = plan.cache == DType::kF16 || plan.cache == DType::kBF16 || plan.cache == DType::kF8E4M3;
  return size && type && plan.latent == 0 && plan.first_rotary == 0;
}

void LaunchTiledAttention(const Launcher& on, const AttentionPlan& plan) {
  if (plan.traits != 0) {
    if (plan.cache == DType::kBF16) return LaunchTraitsBf16(on, plan);
    if (plan.cache == DType::kF8E4M3) return LaunchTraitsF8(on, plan);
    return LaunchTraitsF16(on, plan);
  }
  if (plan.cache == DType::kBF16) return LaunchTiledBf16(on, plan);
  if (plan.cache == DType::kF8E4M3) return LaunchTiledF8(on, plan);
  CHECK(plan.cache == DType::kF16);
  LaunchTiledOfType<__half, false>(on, plan);
}

int ResidentAttentionTiles(const Launcher& on, DType cache, int64_t head_dim, bool chunk, int splits) {
  if (cache == DType::kBF16) return ResidentBf16(on, head_dim, chunk, splits);
  if (cache == DType::kF8E4M3) return ResidentF8(on, head_dim, chunk, splits);
  return ResidentOfType<__half>(on, head_dim, chunk, splits);
}

}  // namespace ringside::cuda
