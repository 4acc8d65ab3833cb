// The kernels of attention_wgmma.cuh for float16 caches, and which of the three element types is meant.
#include "kernels/cuda/attention/attention_wgmma.cuh"

namespace ringside::cuda {

void LaunchWgmmaBf16(const Launcher& on, const AttentionPlan& plan);  // attention_wgmma_bf16.cu
int ResidentWgmmaBf16(int64_t head_dim, int splits);

void LaunchWgmmaF8(const Launcher& on, const AttentionPlan& plan);  // attention_wgmma_f8.cu
int ResidentWgmmaF8(int64_t head_dim, int splits);

int64_t WgmmaAttentionQueries(DType cache, int64_t head_dim) {
#ifdef RINGSIDE_SM90A
  if (cache != DType::kF16 && cache != DType::kBF16 && cache != DType::kF8E4M3) return 0;
  return head_dim == 64 ? WgmmaShape<64>::kQueries : head_dim == 128 ? WgmmaShape<128>::kQueries : 0;
#else
  (void)cache, (void)head_dim;
  return 0;
#endif
}

void LaunchWgmmaAttention(const Launcher& on, const AttentionPlan& plan) {
  if (plan.cache == DType::kBF16) return LaunchWgmmaBf16(on, plan);
  if (plan.cache == DType::kF8E4M3) return LaunchWgmmaF8(on, plan);
  LaunchWgmmaOfType<__half>(on, plan);
}

int ResidentWgmmaTiles(DType cache, int64_t head_dim, int splits) {
  if (cache == DType::kBF16) return ResidentWgmmaBf16(head_dim, splits);
  if (cache == DType::kF8E4M3) return ResidentWgmmaF8(head_dim, splits);
  return ResidentWgmmaOfType<__half>(head_dim, splits);
}

}  // namespace ringside::cuda
