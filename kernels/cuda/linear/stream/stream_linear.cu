// The streaming kernel (stream_linear.cuh) for weights in x's type.
#include "kernels/cuda/linear/stream/stream_linear.cuh"

namespace ringside::cuda {

bool CanStream(const Launcher& on, const SkinnyLinear& args) {
  if (args.x.rows > kMostStreamRows || args.k < 64) return false;
  if (HasGroupScales(args.weight_dtype)) return CanStreamGrouped(on, args);
  const bool bytewise = HasRowScales(args.weight_dtype);
  const GemmParams a = NarrowForStream(args, bytewise ? kStreamChunk<Int8> : kStreamChunk<__half>);
  const size_t bytes = bytewise ? StreamBytes<Int8, true>(on.large, a) : StreamBytes<__half, true>(on.large, a);
  return bytes <= MostStreamBytes(on.large);
}

void LaunchStreamLinear(const Launcher& on, const SkinnyLinear& args) {
  CHECK(IsSkinny(args) && CanStream(on, args));
  if (HasRowScales(args.weight_dtype)) return LaunchStreamLinear8Bit(on, args);
  if (HasGroupScales(args.weight_dtype)) return LaunchStreamLinearGrouped(on, args);
  if (args.dtype == DType::kF16) return LaunchStreamOfTypes<__half, __half>(on, args);
  LaunchStreamOfTypes<__nv_bfloat16, __nv_bfloat16>(on, args);
}

}  // namespace ringside::cuda
