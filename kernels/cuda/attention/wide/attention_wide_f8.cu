// The kernels of attention_wide.cuh for E4M3 caches.
#include "kernels/cuda/attention/wide/attention_wide.cuh"

namespace ringside::cuda {

void LaunchWideF8(const Launcher& on, const AttentionPlan& plan, int first, int64_t count) {
  LaunchWideOfType<__nv_fp8_e4m3>(on, plan, first, count);
}

}  // namespace ringside::cuda
