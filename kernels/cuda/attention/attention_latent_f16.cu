// The kernels of attention_latent.cuh for float16 caches.
#include "kernels/cuda/attention/attention_latent.cuh"

namespace ringside::cuda {

void LaunchLatentF16(const Launcher& on, const AttentionPlan& plan, int splits, int first, int64_t count) {
  LaunchLatentOfType<__half>(on, plan, splits, first, count);
}

}  // namespace ringside::cuda
