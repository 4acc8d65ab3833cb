// The kernels of attention_wide.cuh for float16 caches.
#include "kernels/cuda/attention/wide/attention_wide.cuh"

namespace ringside::cuda {

void LaunchWideF16(const Launcher& on, const AttentionPlan& plan, int first, int64_t count) {
  LaunchWideOfType<__half>(on, plan, first, count);
}

}  // namespace ringside::cuda
