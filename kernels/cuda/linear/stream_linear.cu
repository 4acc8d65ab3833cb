// The streaming kernel (stream_linear.cuh) of weights in x's type.
#include "kernels/cuda/linear/stream_linear.cuh"

namespace ringside::cuda {

bool CanStream(const Launcher& on, const SkinnyLinear& args) {
  return args.x.rows <= 4 && args.k >= 64 &&
         StreamBytes(on.large, NarrowForStream(args), 16, HasOffsets(args.weight_dtype)) <= MostStreamBytes(on.large);
}

void LaunchStreamLinear(const Launcher& on, const SkinnyLinear& args) {
  CHECK(IsSkinny(args) && CanStream(on, args));
  if (HasRowScales(args.weight_dtype)) return LaunchStreamLinear8Bit(on, args);
  if (HasGroupScales(args.weight_dtype)) return LaunchStreamLinearGrouped(on, args);
  if (args.dtype == DType::kF16) return LaunchStreamOfTypes<__half, __half>(on, args);
  LaunchStreamOfTypes<__nv_bfloat16, __nv_bfloat16>(on, args);
}

}  // namespace ringside::cuda
