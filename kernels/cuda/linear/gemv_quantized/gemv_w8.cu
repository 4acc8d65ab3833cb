// The streaming kernel (gemv.cuh) for one-byte weights.
#include "kernels/cuda/linear/gemv_bf16/gemv.cuh"

namespace ringside::cuda {

void LaunchGemvW8(const Launcher& on, const GemmArgs& args, const LinearTile& tile) {
  CHECK(HasRowScales(args.weight_dtype));
  const bool integers = args.weight_dtype == DType::kI8;
  if (args.dtype == DType::kF16) {
    return integers ? LaunchGemvOfTypes<__half, Int8>(on, args, tile) : LaunchGemvOfTypes<__half, E4M3>(on, args, tile);
  }
  return integers ? LaunchGemvOfTypes<__nv_bfloat16, Int8>(on, args, tile)
                  : LaunchGemvOfTypes<__nv_bfloat16, E4M3>(on, args, tile);
}

}  // namespace ringside::cuda
