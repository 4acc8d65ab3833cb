// The kernels of attention_wgmma.cuh for E4M3 caches.
#include "kernels/cuda/attention/attention_wgmma.cuh"

namespace ringside::cuda {

void LaunchWgmmaF8(const Launcher& on, const AttentionPlan& plan) { LaunchWgmmaOfType<__nv_fp8_e4m3>(on, plan); }
int ResidentWgmmaF8(const AttentionPlan& plan, int splits) { return ResidentWgmmaOfType<__nv_fp8_e4m3>(plan, splits); }

}  // namespace ringside::cuda
