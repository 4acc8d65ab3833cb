// The streaming kernel (gemv.cuh) for weights in x's type.
#include "kernels/cuda/linear/gemv_bf16/gemv.cuh"

namespace ringside::cuda {

void LaunchGemv(const Launcher& on, const GemmArgs& args, const LinearTile& tile) {
  CHECK(args.weight_dtype == args.dtype);
  if (args.dtype == DType::kF16) return LaunchGemvOfTypes<__half, __half>(on, args, tile);
  LaunchGemvOfTypes<__nv_bfloat16, __nv_bfloat16>(on, args, tile);
}

}  // namespace ringside::cuda
