// The streaming kernel (gemv.cuh) for one-byte weights.
#include "kernels/cuda/linear/gemv/gemv.cuh"

namespace ringside::cuda {

void LaunchGemvW8(const Launcher& on, const GemmArgs& args) {
  const bool integers = args.weight_dtype == DType::kI8;
  if (args.dtype == DType::kF16) {
    return integers ? LaunchGemvOfTypes<__half, Int8>(on, args) : LaunchGemvOfTypes<__half, E4M3>(on, args);
  }
  return integers ? LaunchGemvOfTypes<__nv_bfloat16, Int8>(on, args) : LaunchGemvOfTypes<__nv_bfloat16, E4M3>(on, args);
}

}  // namespace ringside::cuda
