// The streaming kernel for block-quantized weights (stream_grouped.cuh).
#include "kernels/cuda/linear/stream/stream_grouped.cuh"

namespace ringside::cuda {

bool CanStreamGrouped(const Launcher& on, const SkinnyLinear& args) {
  const GemmParams a = NarrowForStream(args, kPortionInputs);
  const bool gate_up = args.epilogue == AfterLinear::kSiluMultiply;
  return WithBits(args.weight_dtype,
                  [&](auto bits) { return DivideStream<bits()>(on, a, gate_up).stages >= kFewestSlots; });
}

void LaunchStreamLinearGrouped(const Launcher& on, const SkinnyLinear& args) {
  WithBits(args.weight_dtype, [&](auto bits) {
    if (args.dtype == DType::kF16) return LaunchStreamGrouped<__half, bits()>(on, args);
    LaunchStreamGrouped<__nv_bfloat16, bits()>(on, args);
  });
}

bool CanStreamTwoGrouped(const Launcher& on, const SkinnyLinear& args, const SkinnyLinear& next) {
  const auto plain = [&](const SkinnyLinear& one) {
    return HasGroupScales(one.weight_dtype) && one.epilogue == AfterLinear::kNothing && IsSkinny(one) &&
           CanStream(on, one);
  };
  if (!plain(args) || !plain(next)) return false;
  return WithBitsOfTwo(args.weight_dtype, next.weight_dtype, [&](auto bits, auto next_bits) {
    const auto [own, other] = DivideTwo<bits(), next_bits()>(on, NarrowForStream(args, kPortionInputs),
                                                             NarrowForStream(next, kPortionInputs));
    return own.stages >= kFewestSlots && other.stages >= kFewestSlots;
  });
}

void LaunchStreamTwoGrouped(const Launcher& on, const SkinnyLinear& args, const SkinnyLinear& next) {
  CHECK(CanStreamTwoGrouped(on, args, next));
  WithBitsOfTwo(args.weight_dtype, next.weight_dtype, [&](auto bits, auto next_bits) {
    if (args.dtype == DType::kF16) {
      LaunchStreamTwoGroupedOf<__half, bits(), next_bits()>(on, args, next);
    } else {
      LaunchStreamTwoGroupedOf<__nv_bfloat16, bits(), next_bits()>(on, args, next);
    }
    return true;
  });
}

}  // namespace ringside::cuda
