// The streaming kernel (stream_linear.cuh) of weights in tiles.
#include "kernels/cuda/linear/stream_linear.cuh"

namespace ringside::cuda {
void LaunchStreamLinearGrouped(const Launcher& on, const SkinnyLinear& args) {
  WithBits(args.weight_dtype, [&](auto bits) {
    if (args.dtype == DType::kF16) return LaunchStreamOfTypes<__half, Grouped<bits()>>(on, args);
    LaunchStreamOfTypes<__nv_bfloat16, Grouped<bits()>>(on, args);
  });
}

}  // namespace ringside::cuda
