// The streaming kernel (stream_linear.cuh) of weights in tiles.
#include "kernels/cuda/linear/stream_linear.cuh"

namespace ringside::cuda {
namespace {

template <int kBits>
void LaunchOfBits(const Launcher& on, const SkinnyLinear& args) {
  if (args.dtype == DType::kF16) return LaunchStreamOfTypes<__half, Grouped<kBits>>(on, args);
  LaunchStreamOfTypes<__nv_bfloat16, Grouped<kBits>>(on, args);
}

}  // namespace

void LaunchStreamLinearGrouped(const Launcher& on, const SkinnyLinear& args) {
  switch (args.weight_dtype) {
    case DType::kGrouped4:
      return LaunchOfBits<4>(on, args);
    case DType::kGrouped5:
      return LaunchOfBits<5>(on, args);
    case DType::kGrouped6:
      return LaunchOfBits<6>(on, args);
    default:
      LaunchOfBits<8>(on, args);
  }
}

}  // namespace ringside::cuda
