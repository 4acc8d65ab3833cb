// The streaming kernel (stream_linear.cuh) for one-byte weights.
#include "kernels/cuda/linear/stream/stream_linear.cuh"

namespace ringside::cuda {

void LaunchStreamLinear8Bit(const Launcher& on, const SkinnyLinear& args) {
  const bool integers = args.weight_dtype == DType::kI8;
  if (args.dtype == DType::kF16) {
    return integers ? LaunchStreamOfTypes<__half, Int8>(on, args) : LaunchStreamOfTypes<__half, E4M3>(on, args);
  }
  return integers ? LaunchStreamOfTypes<__nv_bfloat16, Int8>(on, args)
                  : LaunchStreamOfTypes<__nv_bfloat16, E4M3>(on, args);
}

}  // namespace ringside::cuda
