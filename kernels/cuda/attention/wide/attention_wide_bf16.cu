// The kernels of attention_wide.cuh for bfloat16 caches.
#include "kernels/cuda/attention/wide/attention_wide.cuh"

namespace ringside::cuda {

void LaunchWideBf16(const Launcher& on, const AttentionPlan& plan, int first, int64_t count) {
  LaunchWideOfType<__nv_bfloat16>(on, plan, first, count);
}

}  // namespace ringside::cuda
