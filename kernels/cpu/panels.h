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
// pairs and single bits. The block's scales follow, 16 of each kind, float16 ones first. Super-blocks of 256 have their
// float16 scales before their 8 blocks. Padding outputs are zero.
// THREAD: any.
#pragma once

#include <cstdint>

#include "kernels/tensor.h"

namespace ringside::cpu {

constexpr int64_t kHalfRow = 32;  // 16 float16 values

struct Q4_0Layout {
  static constexpr int64_t kHeader = 0, kBlocks = 1, kScales = 256, kBytes = 288;
};
struct Q4_1Layout {
  static constexpr int64_t kHeader = 0, kBlocks = 1, kScales = 256, kBytes = 320;
};
struct Q5_0Layout {
  static constexpr int64_t kHeader = 0, kBlocks = 1, kHigh = 256, kScales = 320, kBytes = 352;
};
struct Q5_1Layout {
  static constexpr int64_t kHeader = 0, kBlocks = 1, kHigh = 256, kScales = 320, kBytes = 384;
};
struct Q8_0Layout {
  static constexpr int64_t kHeader = 0, kBlocks = 1, kScales = 512, kBytes = 544;
};
struct Q4_KLayout {
  static constexpr int64_t kHeader = 64, kBlocks = 8, kScales = 256, kBytes = 288;
};
struct Q5_KLayout {
  static constexpr int64_t kHeader = 64, kBlocks = 8, kHigh = 256, kScales = 320, kBytes = 352;
};
struct Q6_KLayout {
  static constexpr int64_t kHeader = 32, kBlocks = 8, kHigh = 256, kScales = 384, kBytes = 416;
};

struct Q2_KLayout {
  static constexpr int64_t kHeader = 64, kBlocks = 8, kScales = 128, kBytes = 160;
};
struct Q3_KLayout {
  static constexpr int64_t kHeader = 32, kBlocks = 8, kHigh = 128, kScales = 192, kBytes = 224;
};
struct IQ4_XSLayout {
  static constexpr int64_t kHeader = 32, kBlocks = 8, kScales = 256, kBytes = 272;
};
struct MXFP4Layout {
  static constexpr int64_t kHeader = 0, kBlocks = 1, kScales = 256, kBytes = 272;
};
struct Q4_ZLayout {
  static constexpr int64_t kHeader = 0, kBlocks = 1, kScales = 256, kBytes = 304;
};

/// Bytes of one panel of 16 outputs and `cols` inputs.
int64_t PanelBytes(DType dtype, int64_t cols);
/// The type in which a file's type is stored: itself, except that kScaledE4M3 becomes kBF16.
constexpr DType StorageTypeOf(DType dtype) { return dtype == DType::kScaledE4M3 ? DType::kBF16 : dtype; }
/// Packs panels [first, last) of a checked weight. `panels` is the start of the whole weight. False if a scale is not
/// finite.
/// REQUIRES: `panels` is zeroed.
bool PackPanels(const HostTensor& host, int64_t first, int64_t last, uint8_t* panels);
/// y[c] = the value of (row, c), c in [0, cols), added to y[c] if accumulating.
void UnpackRow(DType dtype, const uint8_t* panels, int64_t cols, int64_t row, bool accumulate, float* y);

}  // namespace ringside::cpu
