// The streaming kernel for block-quantized weights (block_quant_gemv.cuh).
#include "kernels/cuda/linear/gemv/block_quant_gemv.cuh"

namespace ringside::cuda {

bool CanGemvBlockQuant(const Launcher& on, const GemmArgs& args) {
  const GemmParams a = ToGemvParams(args, kKTileInputs);
  const bool gate_up = args.epilogue == LinearEpilogue::kSiluMultiply;
  return WithBits(args.weight_dtype,
                  [&](auto bits) { return PlanGemvGrid<bits()>(on, a, gate_up).stages >= kMinStages; });
}

void LaunchGemvBlockQuant(const Launcher& on, const GemmArgs& args) {
  WithBits(args.weight_dtype, [&](auto bits) {
    if (args.dtype == DType::kF16) return LaunchBlockQuantGemv<__half, bits()>(on, args);
    LaunchBlockQuantGemv<__nv_bfloat16, bits()>(on, args);
  });
}

bool CanGemvTwoBlockQuant(const Launcher& on, const GemmArgs& args, const GemmArgs& next) {
  const auto plain = [&](const GemmArgs& one) {
    return HasGroupScales(one.weight_dtype) && one.epilogue == LinearEpilogue::kNothing && IsSmallGemm(one) &&
           CanGemv(on, one);
  };
  if (!plain(args) || !plain(next)) return false;
  return WithBitsOfTwo(args.weight_dtype, next.weight_dtype, [&](auto bits, auto next_bits) {
    const auto [own, other] =
        PlanTwoGemvGrids<bits(), next_bits()>(on, ToGemvParams(args, kKTileInputs), ToGemvParams(next, kKTileInputs));
    return own.stages >= kMinStages && other.stages >= kMinStages;
  });
}

void LaunchGemvTwoBlockQuant(const Launcher& on, const GemmArgs& args, const GemmArgs& next) {
  CHECK(CanGemvTwoBlockQuant(on, args, next));
  WithBitsOfTwo(args.weight_dtype, next.weight_dtype, [&](auto bits, auto next_bits) {
    if (args.dtype == DType::kF16) {
      LaunchTwoBlockQuantGemvOf<__half, bits(), next_bits()>(on, args, next);
    } else {
      LaunchTwoBlockQuantGemvOf<__nv_bfloat16, bits(), next_bits()>(on, args, next);
    }
    return true;
  });
}

}  // namespace ringside::cuda
