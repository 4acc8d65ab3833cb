// The kernels of attention_wgmma.cuh for bfloat16 caches.
#include "kernels/cuda/attention/attention_wgmma.cuh"

namespace ringside::cuda {

void LaunchWgmmaBf16(const Launcher& on, const AttentionPlan& plan) { LaunchWgmmaOfType<__nv_bfloat16>(on, plan); }
int ResidentWgmmaBf16(const AttentionPlan& plan, int splits) {
  return ResidentWgmmaOfType<__nv_bfloat16>(plan, splits);
}

}  // namespace ringside::cuda
