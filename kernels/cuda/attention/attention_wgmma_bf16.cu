// The kernels of attention_wgmma.cuh for bfloat16 caches.
#include "kernels/cuda/attention/attention_wgmma.cuh"

namespace ringside::cuda {

void LaunchWgmmaBf16(const Launcher& on, const AttentionPlan& plan) { LaunchWgmmaOfType<__nv_bfloat16>(on, plan); }
int ResidentWgmmaBf16(int64_t head_dim, int splits) { return ResidentWgmmaOfType<__nv_bfloat16>(head_dim, splits); }

}  // namespace ringside::cuda
