// The kernels of attention_wgmma.cuh for float16 caches, and the dispatch over the three element types.
#include "kernels/cuda/attention/attention_wgmma.cuh"

namespace ringside::cuda {

void LaunchWgmmaBf16(const Launcher& on, const AttentionPlan& plan);  // attention_wgmma_bf16.cu
int ResidentWgmmaBf16(const AttentionPlan& plan, int splits);

void LaunchWgmmaF8(const Launcher& on, const AttentionPlan& plan);  // attention_wgmma_f8.cu
int ResidentWgmmaF8(const AttentionPlan& plan, int splits);

int32_t WgmmaAttentionQueries(DType cache, int64_t head_dim, int64_t queries, int64_t keys) {
#ifdef RINGSIDE_SM90A
  if (cache != DType::kF16 && cache != DType::kBF16 && cache != DType::kF8E4M3) return 0;
  if (head_dim == 128) return WgmmaShape<128, 2>::kQueries;
  if (head_dim != 64) return 0;
  constexpr int64_t kManyKeys = 1280;  // measured break-even: with more keys the large block is faster
  const bool many = queries >= WgmmaShape<64, 2>::kQueries && keys >= kManyKeys;
  return many ? WgmmaShape<64, 2>::kQueries : WgmmaShape<64, 1>::kQueries;
#else
  (void)cache, (void)head_dim, (void)queries, (void)keys;
  return 0;
#endif
}

void LaunchWgmmaAttention(const Launcher& on, const AttentionPlan& plan) {
  if (plan.cache == DType::kBF16) return LaunchWgmmaBf16(on, plan);
  if (plan.cache == DType::kF8E4M3) return LaunchWgmmaF8(on, plan);
  LaunchWgmmaOfType<__half>(on, plan);
}

int ResidentWgmmaTiles(const AttentionPlan& plan, int splits) {
  if (plan.cache == DType::kBF16) return ResidentWgmmaBf16(plan, splits);
  if (plan.cache == DType::kF8E4M3) return ResidentWgmmaF8(plan, splits);
  return ResidentWgmmaOfType<__half>(plan, splits);
}

}  // namespace ringside::cuda
