// Attention to shared prefixes in bfloat16 caches.
#include "kernels/cuda/attention/attention_prefix.cuh"

namespace ringside::cuda {

void LaunchPrefixBf16(const Launcher& on, const AttentionPlan& plan, const PrefixPlan& prefixes) {
  LaunchPrefixOfType<__nv_bfloat16>(on, plan, prefixes);
}

}  // namespace ringside::cuda
