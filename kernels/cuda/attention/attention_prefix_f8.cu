// Attention to shared prefixes in E4M3 caches.
#include "kernels/cuda/attention/attention_prefix.cuh"

namespace ringside::cuda {

void LaunchPrefixF8(const Launcher& on, const AttentionPlan& plan, const PrefixPlan& prefixes) {
  LaunchPrefixOfType<__nv_fp8_e4m3>(on, plan, prefixes);
}

}  // namespace ringside::cuda
