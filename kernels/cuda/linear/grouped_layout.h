// How weights that a file has in blocks (GGML's formats) lie in device memory, as many bits an element as there: in
// tiles of 8 rows (outputs) and 128 inputs, of which a lane l of a warp holds row l / 4 and, of each group of 32
// inputs, those that the tensor cores' left operand of 16 bits wants of it: 8 i + 2 j and 8 i + 2 j + 1, i in 0..3, j =
// l % 4.
//
//   low halves (512 bytes)  bits 8 (i % 2) + 4 (i / 2) ... of word g of a lane: the low four bits of input 32 g + 8 i +
//                           2 j; 16 further on those of the next input. So every second four bits are bytes of the
//                           same half of a group. A lane's four words lie side by side.
//   codes (512)             of FP4 E2M1, instead of the low halves: bits 16 (i / 2) + 4 (i % 2) ..., and 8 further on
//   bytes (1,024)           instead of the low halves, signed: a group's 32 inputs as two groups of quantised_layout.h,
//                           of which word j is lane j's; first the words of two groups of 32, then those of the others
//   pairs of bits (256)     bits 8 (i % 2) + 4 (g % 2) + 2 (i / 2) ... of word g / 2 of a lane's two, and 16 further on
//   single bits (128)       bit 8 (i % 2) + 2 g + i / 2 of a lane's word, and 16 further on
//
// An element of 2 bits is a pair, of 3 bits a pair and a single bit above it, of 4 bits a low half, of 5 and 6 bits one
// and a single bit or a pair above it. Then float16 scales, row by row: of 2 bits a scale and an offset a group of 16,
// of 3 and 6 bits a scale a group of 16 (of q - 4, of q - 32), of 4 and 5 bits a scale and an offset a group of 32, of
// 8 bits and of codes (of their numbers doubled, which are whole) a scale a group of 32. An element is unit (scale q +
// offset), where a row's unit is a power of two beside the tiles, such that scales keep their bits. 64 rows are a
// panel: a panel's tiles of the same inputs lie side by side, and so do a weight's panels. What is not there is zero.
// Sizes for host and device, packing for the host.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/host_device.h"
#include "kernels/tensor.h"

namespace ringside::cuda {

constexpr int kTileRows = 8, kTileInputs = 128, kTileGroups = 4, kPanelRows = 64, kPanelTiles = kPanelRows / kTileRows;

constexpr int kE2M1 = 104;  // in the place of bits: codes of 4 bits that stand for numbers of FP4 E2M1

/// What elements of so many bits are made of, and where the parts of their tile begin, and its end, in bytes.
template <int kBits>
struct TileOf {
  static constexpr bool kHasLow = kBits != 8 && kBits >= 4;                       // low halves, or codes
  static constexpr bool kHasPair = kBits == 2 || kBits == 3 || kBits == 6;        // a pair of bits
  static constexpr bool kHasSingle = kBits == 3 || kBits == 5;                    // a single bit
  static constexpr int kPairShift = kHasLow ? 4 : 0;                              // of the pair in the element
  static constexpr int kSingleShift = kHasLow ? 4 : 2;                            // of the single bit
  static constexpr int kHalves = kBits == 2 || kBits == 3 || kBits == 6 ? 2 : 1;  // of a group, with their own scales
  static constexpr bool kHasOffset = kBits == 2 || kBits == 4 || kBits == 5;      // beside each scale
  static constexpr bool kHasCodes = kBits == kE2M1;
  // Elements less it are about zero; of codes the integers that they become (LaneTile::Bytes).
  static constexpr int kMiddle = kHasCodes ? 12 : kBits == 8 ? 0 : 1 << (kBits - 1);

  static constexpr int kPairs = kBits == 8 ? 1024 : kHasLow ? 512 : 0;
  static constexpr int kSingles = kPairs + (kHasPair ? 256 : 0);
  static constexpr int kScales = kSingles + (kHasSingle ? 128 : 0);
  static constexpr int kScaleBytes = kHasOffset ? 4 : 2;                  // of one, and its offset
  static constexpr int kRowScales = kTileGroups * kHalves * kScaleBytes;  // bytes of a row's scales
  static constexpr int kBytes = kScales + kTileRows * kRowScales;
};

/// Where the bits of pair i of group g begin in their words, those of its first input: low halves, codes, pairs of
/// bits, single bits.
RINGSIDE_HOST_DEVICE constexpr int LowShift(int i) { return i % 2 * 8 + i / 2 * 4; }
RINGSIDE_HOST_DEVICE constexpr int CodeShift(int i) { return i % 2 * 4 + i / 2 * 16; }
RINGSIDE_HOST_DEVICE constexpr int PairShift(int g, int i) { return i % 2 * 8 + g % 2 * 4 + i / 2 * 2; }
RINGSIDE_HOST_DEVICE constexpr int SingleShift(int g, int i) { return i % 2 * 8 + g * 2 + i / 2; }

RINGSIDE_HOST_DEVICE constexpr int BitsOf(DType grouped) {
  switch (grouped) {
    case DType::kGrouped2:
      return 2;
    case DType::kGrouped3:
      return 3;
    case DType::kGrouped4:
      return 4;
    case DType::kGrouped5:
      return 5;
    case DType::kGrouped6:
      return 6;
    case DType::kGroupedE2M1:
      return kE2M1;
    default:
      return 8;
  }
}
/// Calls body with an element's bits as a constant.
RINGSIDE_CALLS_EITHER
template <class Body>
RINGSIDE_HOST_DEVICE auto WithBits(int bits, const Body& body) {
  switch (bits) {
    case 2:
      return body(std::integral_constant<int, 2>());
    case 3:
      return body(std::integral_constant<int, 3>());
    case 4:
      return body(std::integral_constant<int, 4>());
    case 5:
      return body(std::integral_constant<int, 5>());
    case 6:
      return body(std::integral_constant<int, 6>());
    case kE2M1:
      return body(std::integral_constant<int, kE2M1>());
    default:
      return body(std::integral_constant<int, 8>());
  }
}
template <class Body>
auto WithBits(DType grouped, const Body& body) {
  return WithBits(BitsOf(grouped), body);
}
/// Calls body with the bits of two layers of the same rows as constants and returns what that does; false if two of
/// these bits do not share a launch. In files values have more bits than queries and keys: six beside four or five,
/// four beside two or three.
template <class Body>
bool WithBitsOfTwo(DType first, DType next, const Body& body) {
  return WithBits(first, [&](auto bits) {
    constexpr int kNext = bits() <= 3 ? 4 : 6;
    if constexpr (bits() <= 5) return BitsOf(next) == kNext && body(bits, std::integral_constant<int, kNext>());
    return false;
  });
}
inline int64_t TileBytes(DType grouped) {
  return WithBits(grouped, [](auto bits) -> int64_t { return TileOf<bits()>::kBytes; });
}
RINGSIDE_HOST_DEVICE constexpr int64_t TilesAcross(int64_t cols) { return (cols + kTileInputs - 1) / kTileInputs; }
constexpr int64_t PanelsDown(int64_t rows) { return (rows + kPanelRows - 1) / kPanelRows; }
/// The tile of row `row` and the inputs of chunk `chunk`, counted from the first, in a weight with `across` tiles
/// across.
RINGSIDE_HOST_DEVICE constexpr int64_t TileNumber(int64_t row, int64_t chunk, int64_t across) {
  return (row / kPanelRows * across + chunk) * kPanelTiles + row % kPanelRows / kTileRows;
}
inline int64_t PanelBytes(DType grouped, int64_t cols) { return TilesAcross(cols) * kPanelTiles * TileBytes(grouped); }

}  // namespace ringside::cuda
