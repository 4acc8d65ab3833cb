// The kernels of attention_wgmma.cuh for E4M3 caches.
#include "kernels/cuda/attention/attention_wgmma.cuh"

namespace ringside::cuda {

void LaunchWgmmaF8(const Launcher& on, const AttentionPlan& plan) { LaunchWgmmaOfType<__nv_fp8_e4m3>(on, plan); }
int ResidentWgmmaF8(int64_t head_dim, int splits) { return ResidentWgmmaOfType<__nv_fp8_e4m3>(head_dim, splits); }

}  // namespace ringside::cuda
