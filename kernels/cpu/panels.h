// Weight layout of the CPU: packed panels of 16 outputs. Float types: [input][16]. Quantized types keep the file's
// integers and scales (one copy, no loss), interleaved so that one vector of 64 bytes holds 4 consecutive inputs of 16
// outputs:
//
//   nibbles (256 bytes a block of 32 inputs)  byte 64 j + 4 r + c of output r holds input 4 j + c in its low half
//                                             and input 16 + 4 j + c in its high half, j in 0..3, c in 0..3
//   bytes (512, Q8_0, + 128)                  byte 64 j + 4 r + c holds input 4 j + c, j in 0..7
//   pairs (2 x 64)                            bits 2 j, 2 j + 1 of byte 4 r + c belong to input 4 j + c (first 64) or
//                                             16 + 4 j + c (second 64), j in 0..3
//   single bits (64)                          bit j of byte 4 r + c belongs to input 4 j + c, j in 0..7
//
// Integers of other widths are split: 5 bits into nibbles and single bits above them, 6 into nibbles and pairs, 3 into
// pairs and single bits. The block's scales follow, 16 of each kind: float16, float32, bytes. Super-blocks have their
// float16 and float32 scales before their blocks. kScaledE4M3 has 16 float32 scales before each 32 inputs, which are
// [input][16]. Padding outputs are zero.
// THREAD: any.
#pragma once

#include <cstdint>

#include "kernels/tensor.h"

namespace ringside::cpu {

constexpr int64_t kHalfRow = 32, kFloatRow = 64;  // bytes of 16 float16 and float32 values

/// A row of panel_types.def, and the offsets in bytes that follow from it.
template <int kLow, int kHigh, int kHalfCount, int kByteCount, int kFloatCount, int kBlockCount>
struct PanelLayout {
  static constexpr int kLowBits = kLow, kHighBits = kHigh;
  static constexpr int kHalves = kHalfCount, kByteScales = kByteCount, kFloats = kFloatCount;
  static constexpr int64_t kBlocks = kBlockCount;
  static constexpr int64_t kWideScales = kHalves * kHalfRow + kFloats * kFloatRow;
  static constexpr int64_t kHeader = kBlocks > 1 ? kWideScales : 0;
  static constexpr int64_t kHighPart = 64 * kLow, kScales = kHighPart + 64 * kHigh;
  static constexpr int64_t kBytes = kScales + 16 * kByteScales + (kBlocks > 1 ? 0 : kWideScales);
};
#define PANEL(type, ...) using type##Layout = PanelLayout<__VA_ARGS__>;
#include "kernels/cpu/panel_types.def"
#undef PANEL

/// Inputs of kScaledE4M3 that share a float32 scale.
constexpr int64_t kE4M3Unit = 32;

/// Whether panels of `dtype` hold integers, whose products need quantized activations: it is a row of panel_types.def.
inline bool HasIntegers(DType dtype) { return IsQuantized(dtype) && dtype != DType::kScaledE4M3; }
/// Bytes of one panel of 16 outputs and `cols` inputs.
int64_t PanelBytes(DType dtype, int64_t cols);
/// Packs panels [first, last) of a checked weight. `panels` is the start of the whole weight. False if a scale is not
/// finite.
/// REQUIRES: `panels` is zeroed.
bool PackPanels(const HostTensor& host, int64_t first, int64_t last, uint8_t* panels);
/// y[c] = the value of (row, c), c in [0, cols), added to y[c] if accumulating.
void UnpackRow(DType dtype, const uint8_t* panels, int64_t cols, int64_t row, bool accumulate, float* y);

}  // namespace ringside::cpu
