// How weights that a file has in blocks (GGML's formats) lie in device memory, as many bits an element as there: in
// tiles of 8 rows (outputs) and 128 inputs, of which a lane l of a warp holds row l / 4 and, of each group of 32
// inputs, those that the tensor cores' left operand of 16 bits wants of it: 8 i + 2 j and 8 i + 2 j + 1, i in 0..3, j =
// l % 4.
//
//   low halves (512 bytes)  bits 8 (i % 2) + 4 (i / 2) ... of word g of a lane: the low four bits of input 32 g + 8 i +
//                           2 j; 16 further on those of the next input. So every second four bits are bytes of the
//                           same half of a group. A lane's four words lie side by side.
//   fifth bits (128)        bit 8 (i % 2) + 2 g + i / 2 of a lane's word, and 16 further on
//   high pairs (256)        bits 8 (i % 2) + 4 (g % 2) + 2 (i / 2) ... of word g / 2 of a lane's two, and 16 further on
//   bytes (1,024)           instead of the low halves, signed: a group's 32 inputs as two groups of quantised_layout.h,
//                           of which word j is lane j's; first the words of two groups of 32, then those of the others
//
// Then float16 scales, row by row: of 4 and 5 bits a scale and an offset a group of 32, of 6 bits a scale a group of 16
// (of q - 32), of 8 bits a scale a group of 32. An element is unit (scale q + offset), where a row's unit is a power of
// two beside the tiles, such that scales keep their bits. 64 rows are a panel: a panel's tiles of the same inputs lie
// side by side, and so do a weight's panels. What is not there is zero. Sizes for host and device, packing for the
// host.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/host_device.h"
#include "kernels/tensor.h"

namespace ringside::cuda {

constexpr int kTileRows = 8, kTileInputs = 128, kTileGroups = 4, kPanelRows = 64, kPanelTiles = kPanelRows / kTileRows;

/// Where the parts of a tile begin, and its end, in bytes.
template <int kBits>
struct TileOf {
  static constexpr int kHigh = kBits == 8 ? 1024 : 512;
  static constexpr int kScales = kHigh + (kBits == 5 ? 128 : kBits == 6 ? 256 : 0);
  static constexpr int kRowScales = kBits == 8 ? 8 : 16;  // bytes of a row's scales
  static constexpr int kBytes = kScales + kTileRows * kRowScales;
};

/// Where the bits of pair i of group g begin in their words, those of its first input: the low four bits, the fifth,
/// the two high ones.
RINGSIDE_HOST_DEVICE constexpr int LowShift(int i) { return i % 2 * 8 + i / 2 * 4; }
RINGSIDE_HOST_DEVICE constexpr int FifthShift(int g, int i) { return i % 2 * 8 + g * 2 + i / 2; }
RINGSIDE_HOST_DEVICE constexpr int HighShift(int g, int i) { return i % 2 * 8 + g % 2 * 4 + i / 2 * 2; }

constexpr int BitsOf(DType grouped) {
  return grouped == DType::kGrouped4 ? 4 : grouped == DType::kGrouped5 ? 5 : grouped == DType::kGrouped6 ? 6 : 8;
}
/// Calls body with an element's bits as a constant.
RINGSIDE_CALLS_EITHER
template <class Body>
RINGSIDE_HOST_DEVICE auto WithBits(int bits, const Body& body) {
  switch (bits) {
    case 4:
      return body(std::integral_constant<int, 4>());
    case 5:
      return body(std::integral_constant<int, 5>());
    case 6:
      return body(std::integral_constant<int, 6>());
    default:
      return body(std::integral_constant<int, 8>());
  }
}
template <class Body>
auto WithBits(DType grouped, const Body& body) {
  return WithBits(BitsOf(grouped), body);
}
/// Of the second of two layers of the same rows that share a launch: in files values have six bits where queries and
/// keys have fewer.
constexpr int kNextBits = 6;
/// Calls body with the bits of the first of them as a constant and returns what that does; false if it has others.
template <class Body>
bool WithFirstBits(DType grouped, const Body& body) {
  if (BitsOf(grouped) == 4) return body(std::integral_constant<int, 4>());
  return BitsOf(grouped) == 5 && body(std::integral_constant<int, 5>());
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
