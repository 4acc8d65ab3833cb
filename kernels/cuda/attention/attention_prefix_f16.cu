// Attention to shared prefixes in float16 caches, and the dispatch over the three element types.
#include "kernels/cuda/attention/attention_prefix.cuh"

namespace ringside::cuda {

void LaunchPrefixBf16(const Launcher& on, const AttentionPlan& plan, const PrefixPlan& prefixes);
void LaunchPrefixF8(const Launcher& on, const AttentionPlan& plan, const PrefixPlan& prefixes);

void LaunchPrefixAttention(const Launcher& on, const AttentionPlan& plan, const PrefixPlan& prefixes) {
  CHECK(plan.traits == 0 && plan.queries_only == 0);
  if (plan.cache == DType::kBF16) return LaunchPrefixBf16(on, plan, prefixes);
  if (plan.cache == DType::kF8E4M3) return LaunchPrefixF8(on, plan, prefixes);
  CHECK(plan.cache == DType::kF16);
  LaunchPrefixOfType<__half>(on, plan, prefixes);
}

}  // namespace ringside::cuda
