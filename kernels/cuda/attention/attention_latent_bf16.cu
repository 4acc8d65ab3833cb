// The kernels of attention_latent.cuh for bfloat16 caches.
#include "kernels/cuda/attention/attention_latent.cuh"

namespace ringside::cuda {

void LaunchLatentBf16(const Launcher& on, const AttentionPlan& plan, int splits, int first, int64_t count) {
  LaunchLatentOfType<__nv_bfloat16>(on, plan, splits, first, count);
}

}  // namespace ringside::cuda
