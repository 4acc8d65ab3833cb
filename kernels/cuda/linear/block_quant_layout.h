// Device layout of block-quantized weights (GGML's formats) at the file's number of bits per element. The unit is a
// tile of 8 rows (outputs) by 128 inputs (K). Lane l of a warp owns row l / 4 and, of each group of 32 inputs, the
// elements that it holds of the 16-bit left operand of an MMA: 8 i + 2 j and 8 i + 2 j + 1, with i in 0..3 and j = l %
// 4.
//
//   low halves (512 bytes)  bits 8 (i % 2) + 4 (i / 2) ... of word g of a lane: the low four bits of input 32 g + 8 i +
//                           2 j; those of the next input are 16 bits up. So alternate nibbles are bytes of one half
//                           of a group. A lane's four words are contiguous.
//   codes (512)             FP4 E2M1, instead of low halves: bits 16 (i / 2) + 4 (i % 2) ..., next input 8 bits up
//   bytes (1,024)           signed or E4M3, instead of low halves: a group's 32 inputs form two groups of w8_layout.h,
//                           whose word j belongs to lane j; first the words of two groups of 32, then of the other two
//   pairs of bits (256)     bits 8 (i % 2) + 4 (g % 2) + 2 (i / 2) ... of word g / 2 of a lane's two, next input 16 up
//   single bits (128)       bit 8 (i % 2) + 2 g + i / 2 of a lane's word, next input 16 bits up
//
// A 2-bit element is a pair of bits; a 3-bit element is a pair with a single bit above it; a 4-bit element is a low
// half; 5- and 6-bit elements are a low half with a single bit or a pair above it. Float16 scales follow, row by row.
// Types of 2 bits have a scale and an offset per group of 16 inputs; 3 and 6 bits a scale per group of 16 (applied to q
// - 4 and q - 32); 4 and 5 bits a scale and an offset per group of 32; 8 bits and codes a scale per group of 32 (codes
// count in halves, so that they are integers). An element is unit * (scale * q + offset). A row's unit is a power of
// two, stored apart from the tiles and chosen so that float16 scales lose no bits. 64 rows form a packed weight panel:
// its tiles of the same inputs are contiguous, and so are the panels of a weight. Padding is zero. Sizes are for host
// and device, packing for the host.
//
// E4M3 tiles have no scales inside and no units. Each tile has one float32 scale, stored apart: per 8 rows and K tile
// (256 inputs) four floats, the scales of its two tiles and their ratios, which are the scale of the previous tile of
// these rows / this one (1 for the first). A sum in units of the previous scale, times the ratio, is one in units of
// this scale. So kernels can accumulate unscaled products in place. Scales are within 2^-40 ... 2^40, so ratios are
// finite.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/host_device.h"
#include "kernels/tensor.h"

namespace ringside::cuda {

constexpr int kTileRows = 8, kTileInputs = 128, kTileGroups = 4, kPanelRows = 64, kPanelTiles = kPanelRows / kTileRows;

// Used in place of a number of bits: 4-bit codes of FP4 E2M1 values, 8-bit codes of FP8 E4M3 values.
constexpr int kE2M1 = 104, kE4M3 = 108;

/// The components of an element of kBits bits, and the byte offsets of these components in a tile.
template <int kBits>
struct TileOf {
  static constexpr bool kHasTileScale = kBits == kE4M3;                     // one scale, outside the tile
  static constexpr bool kHasBytes = kBits == 8 || kBits == kE4M3;           // integers or E4M3
  static constexpr bool kHasLow = !kHasBytes && kBits >= 4;                 // low halves or codes
  static constexpr bool kHasPair = kBits == 2 || kBits == 3 || kBits == 6;  // pairs of bits
  static constexpr bool kHasSingle = kBits == 3 || kBits == 5;              // single bits
  static constexpr int kPairShift = kHasLow ? 4 : 0;                        // position of the pair within the element
  static constexpr int kSingleShift = kHasLow ? 4 : 2;  // position of the single bit within the element
  static constexpr int kHalves = kBits == 2 || kBits == 3 || kBits == 6 ? 2 : 1;  // scale groups per 32 inputs
  static constexpr bool kHasOffset = kBits == 2 || kBits == 4 || kBits == 5;      // an offset per scale
  static constexpr bool kHasCodes = kBits == kE2M1;
  // Midpoint: elements minus it are centred at zero. For codes: of the integers that LaneTile::Bytes returns.
  static constexpr int kMiddle = kHasCodes ? 12 : kHasBytes ? 0 : 1 << (kBits - 1);

  static constexpr int kPairs = kHasBytes ? 1024 : kHasLow ? 512 : 0;
  static constexpr int kSingles = kPairs + (kHasPair ? 256 : 0);
  static constexpr int kScales = kSingles + (kHasSingle ? 128 : 0);
  static constexpr int kScaleBytes = kHasOffset ? 4 : 2;                                      // a scale and its offset
  static constexpr int kRowScales = kHasTileScale ? 0 : kTileGroups * kHalves * kScaleBytes;  // bytes per row
  static constexpr int kBytes = kScales + kTileRows * kRowScales;
};

/// Bit position of pair i of group g within its word (its first input), for low halves, codes, pairs and single bits.
RINGSIDE_HOST_DEVICE constexpr int LowShift(int i) { return i % 2 * 8 + i / 2 * 4; }
RINGSIDE_HOST_DEVICE constexpr int CodeShift(int i) { return i % 2 * 4 + i / 2 * 16; }
RINGSIDE_HOST_DEVICE constexpr int PairShift(int g, int i) { return i % 2 * 8 + g % 2 * 4 + i / 2 * 2; }
RINGSIDE_HOST_DEVICE constexpr int SingleShift(int g, int i) { return i % 2 * 8 + g * 2 + i / 2; }

RINGSIDE_HOST_DEVICE constexpr int BitsOf(DType block_type) {
  switch (block_type) {
    case DType::kBlockQuant2:
      return 2;
    case DType::kBlockQuant3:
      return 3;
    case DType::kBlockQuant4:
      return 4;
    case DType::kBlockQuant5:
      return 5;
    case DType::kBlockQuant6:
      return 6;
    case DType::kBlockQuantE2M1:
      return kE2M1;
    case DType::kBlockQuantE4M3:
      return kE4M3;
    default:
      return 8;
  }
}
/// Calls body with the number of bits as a compile-time constant.
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
    case kE4M3:
      return body(std::integral_constant<int, kE4M3>());
    default:
      return body(std::integral_constant<int, 8>());
  }
}
template <class Body>
auto WithBits(DType block_type, const Body& body) {
  return WithBits(BitsOf(block_type), body);
}
/// Whether two layers of the same rows have a kernel that computes both. Only combinations that occur in files do: V
/// has more bits than Q and K, six with four or five, or four with two or three; a recurrent layer's gate has fewer
/// bits than its channels, four with five.
constexpr bool HasPairKernel(DType first, DType next) {
  const int bits = BitsOf(first), next_bits = BitsOf(next);
  return bits <= 5 && (next_bits == (bits <= 3 ? 4 : 6) || (bits == 5 && next_bits == 4));
}
/// Calls body with the bits of two such layers as compile-time constants.
/// REQUIRES: HasPairKernel(first, next).
template <class Body>
void WithBitsOfPair(DType first, DType next, const Body& body) {
  WithBits(first, [&](auto bits) {
    if constexpr (bits() <= 3) {
      body(bits, std::integral_constant<int, 4>());
    } else if constexpr (bits() == 5) {
      BitsOf(next) == 4 ? body(bits, std::integral_constant<int, 4>()) : body(bits, std::integral_constant<int, 6>());
    } else if constexpr (bits() == 4) {
      body(bits, std::integral_constant<int, 6>());
    }
  });
}
inline int64_t TileBytes(DType block_type) {
  return WithBits(block_type, [](auto bits) -> int64_t { return TileOf<bits()>::kBytes; });
}
RINGSIDE_HOST_DEVICE constexpr int64_t TilesAcross(int64_t cols) { return (cols + kTileInputs - 1) / kTileInputs; }
constexpr int64_t PanelsDown(int64_t rows) { return (rows + kPanelRows - 1) / kPanelRows; }
/// Index of the tile that holds row `row` and K tile `chunk`, in a weight with `across` tiles per row.
RINGSIDE_HOST_DEVICE constexpr int64_t TileNumber(int64_t row, int64_t chunk, int64_t across) {
  return (row / kPanelRows * across + chunk) * kPanelTiles + row % kPanelRows / kTileRows;
}
inline int64_t PanelBytes(DType block_type, int64_t cols) {
  return TilesAcross(cols) * kPanelTiles * TileBytes(block_type);
}

// ---- scales of E4M3 tiles

constexpr int kTileScaleFloats = 4;  // per 8 rows and K tile: two scales, two ratios
constexpr int kRatio = 2;            // index of the ratios
constexpr float kMinTileScale = 0x1p-40f, kMaxTileScale = 0x1p40f;
/// Floats between the scales of 8 rows and of the next 8.
RINGSIDE_HOST_DEVICE constexpr int64_t TileScaleStride(int64_t cols) {
  return (TilesAcross(cols) + 1) / 2 * kTileScaleFloats;
}
/// Index of the scale of the tile that holds row `row` and K tile half `chunk`; the ratio is kRatio further.
RINGSIDE_HOST_DEVICE constexpr int64_t TileScaleAt(int64_t row, int64_t chunk, int64_t cols) {
  return row / kTileRows * TileScaleStride(cols) + chunk / 2 * kTileScaleFloats + chunk % 2;
}
/// Floats in Weight::scales per panel: units of rows, or scales of tiles.
inline int64_t PanelScales(DType block_type, int64_t cols) {
  return block_type == DType::kBlockQuantE4M3 ? kPanelTiles * TileScaleStride(cols) : kPanelRows;
}

}  // namespace ringside::cuda
