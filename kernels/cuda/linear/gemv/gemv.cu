// The streaming kernel (gemv.cuh) for weights in x's type.
#include "kernels/cuda/linear/gemv/gemv.cuh"

namespace ringside::cuda {

bool CanGemv(const Launcher& on, const GemmArgs& args) {
  if (args.x.rows > kMaxGemvRows || args.k < 64) return false;
  if (HasGroupScales(args.weight_dtype)) return CanGemvBlockQuant(on, args);
  const bool bytewise = HasRowScales(args.weight_dtype);
  const GemmParams a = ToGemvParams(args, bytewise ? kGemvKTile<Int8> : kGemvKTile<__half>);
  const size_t bytes = bytewise ? GemvSharedBytes<Int8, true>(on.large, a) : GemvSharedBytes<__half, true>(on.large, a);
  return bytes <= MaxGemvSharedBytes(on.large);
}

void LaunchGemv(const Launcher& on, const GemmArgs& args) {
  CHECK(IsSmallGemm(args) && CanGemv(on, args));
  if (HasRowScales(args.weight_dtype)) return LaunchGemvW8(on, args);
  if (HasGroupScales(args.weight_dtype)) return LaunchGemvBlockQuant(on, args);
  if (args.dtype == DType::kF16) return LaunchGemvOfTypes<__half, __half>(on, args);
  LaunchGemvOfTypes<__nv_bfloat16, __nv_bfloat16>(on, args);
}

}  // namespace ringside::cuda
