// The streaming kernel for block-quantized weights (block_quant_gemv.cuh).
#include "kernels/cuda/linear/gemv_quantized/block_quant_gemv.cuh"

namespace ringside::cuda {

void LaunchGemvBlockQuant(const Launcher& on, const GemmArgs& args, const LinearTile& tile) {
  CHECK(HasGroupScales(args.weight_dtype));
  WithBits(args.weight_dtype, [&](auto bits) {
    if (args.dtype == DType::kF16) return LaunchBlockQuantGemv<__half, bits()>(on, args, tile);
    LaunchBlockQuantGemv<__nv_bfloat16, bits()>(on, args, tile);
  });
}

void LaunchGemvTwoBlockQuant(const Launcher& on, const GemmArgs& args, const GemmArgs& next, const LinearPlan& plan) {
  CHECK(HasGroupScales(args.weight_dtype) && HasPairKernel(args.weight_dtype, next.weight_dtype));
  WithBitsOfPair(args.weight_dtype, next.weight_dtype, [&](auto bits, auto next_bits) {
    if (args.dtype == DType::kF16) {
      LaunchTwoBlockQuantGemvOf<__half, bits(), next_bits()>(on, args, next, plan);
    } else {
      LaunchTwoBlockQuantGemvOf<__nv_bfloat16, bits(), next_bits()>(on, args, next, plan);
    }
  });
}

}  // namespace ringside::cuda
