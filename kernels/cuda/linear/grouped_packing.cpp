#include "kernels/cuda/linear/grouped_packing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "kernels/cuda/linear/grouped_layout.h"
#include "kernels/cuda/linear/quantised_layout.h"
#include "kernels/formats/code_values.h"
#include "kernels/formats/file_formats.h"
#include "kernels/formats/half.h"
#include "kernels/formats/row_quantisation.h"

namespace ringside::cuda {
namespace {

constexpr int kUnitSteps = 8;  // a row's largest scale is up to 2^8 of its units

/// 32 inputs of a row: q as the tiles have them, and what they stand for, scale[half] q + offset.
struct Group {
  uint8_t q[32];
  float scale[2], offset;
};

Group ReadGroup(DType file, const uint8_t* row, int64_t b) {
  FileBlock block{};
  ReadFileBlock(file, row, b, &block);
  Group out{};
  std::copy(std::begin(block.q), std::end(block.q), out.q);
  const float d = HalfToFloat(block.d), m = HalfToFloat(block.m);
  out.scale[0] = out.scale[1] = d;
  switch (file) {
    case DType::kQ8_0:
      for (uint8_t& q : out.q) q ^= 0x80;  // signed
      break;
    case DType::kQ4_0:
      out.offset = -8 * d;
      break;
    case DType::kQ5_0:
      out.offset = -16 * d;
      break;
    case DType::kQ4_1:
    case DType::kQ5_1:
      out.offset = m;
      break;
    case DType::kQ3_K:
      for (uint8_t& q : out.q) q += 32 - 4;
      [[fallthrough]];
    case DType::kQ6_K:
      for (int h = 0; h < 2; ++h) out.scale[h] = d * static_cast<float>(static_cast<int8_t>(block.scale[h]));
      break;
    case DType::kIQ4_XS:
      out.scale[0] = out.scale[1] = d * static_cast<float>(static_cast<int8_t>(block.scale[0]));
      [[fallthrough]];
    case DType::kIQ4_NL:
      for (uint8_t& q : out.q) q = static_cast<uint8_t>(kIq4Values[q]);
      break;
    case DType::kMXFP4:
      for (uint8_t& q : out.q) q = static_cast<uint8_t>(16 + kMxfp4Values[q]);
      out.scale[0] = out.scale[1] = HasFiniteScales(file, block) ? std::ldexp(1.0f, block.scale[0] - 128)
                                                                 : std::numeric_limits<float>::infinity();
      out.offset = -16 * out.scale[0];
      break;
    case DType::kQ4_Z:
      out.offset = -d * static_cast<float>(block.scale[0]);
      break;
    default:
      out.scale[0] = out.scale[1] = d * static_cast<float>(block.scale[0]);
      out.offset = -m * static_cast<float>(block.scale[1]);
  }
  return out;
}

/// Of values that lie in no blocks.
Group RoundGroup(std::span<const float, 32> values) {
  Group out{};
  out.scale[0] = out.scale[1] = QuantiseRow(DType::kI8, values, out.q);
  return out;
}

void Put(uint8_t* to, uint16_t bits) { std::memcpy(to, &bits, sizeof bits); }
uint16_t Get(const uint8_t* from) {
  uint16_t bits;
  std::memcpy(&bits, from, sizeof bits);
  return bits;
}

/// Bits of word `word`, from `shift` on.
void Set(uint8_t* words, int word, int shift, uint32_t bits) {
  uint32_t value;
  std::memcpy(&value, words + word * 4, 4);
  value |= bits << shift;
  std::memcpy(words + word * 4, &value, 4);
}
uint32_t Bits(const uint8_t* words, int word, int shift) {
  uint32_t value;
  std::memcpy(&value, words + word * 4, 4);
  return value >> shift;
}

/// Where input i of a group of 32 is: which lane of its row, which of that lane's four pairs, which of the two.
struct Place {
  int lane, pair, second;
};
Place PlaceOf(int i) { return {i % 8 / 2, i / 8, i % 2}; }

/// Byte 16 (g % 2) ... of the half of `bytes` that holds group g: four words a lane, two of a group.
uint8_t* WordsOfBytes(uint8_t* tile, int g, int lane) { return tile + g / 2 * 512 + lane * 16 + g % 2 * 8; }

void PackIntegers(const Group& group, int bits, int row, int g, uint8_t* tile) {
  if (bits == 8) {
    for (int h = 0; h < 2; ++h) {
      uint8_t placed[kQuantisedGroup];
      PlaceQuantisedRow(DType::kI8, {group.q + h * kQuantisedGroup, kQuantisedGroup}, placed);
      for (int j = 0; j < 4; ++j) std::memcpy(WordsOfBytes(tile, g, row * 4 + j) + h * 4, placed + j * 4, 4);
    }
    return;
  }
  uint8_t* high = tile + TileOf<4>::kHigh;
  for (int i = 0; i < 32; ++i) {
    const Place at = PlaceOf(i);
    const int lane = row * 4 + at.lane, second = at.second * 16;
    Set(tile, lane * 4 + g, LowShift(at.pair) + second, group.q[i] & 15);
    if (bits == 5) Set(high, lane, FifthShift(g, at.pair) + second, group.q[i] >> 4);
    if (bits == 6) Set(high, lane * 2 + g / 2, HighShift(g, at.pair) + second, group.q[i] >> 4);
  }
}

void PackScales(const Group& group, int bits, float unit, int g, uint8_t* scales) {
  const auto half = [&](float x) { return FloatToHalf(x / unit); };
  if (bits == 8) {
    Put(scales + g * 2, half(group.scale[0]));
  } else {
    Put(scales + g * 4, half(group.scale[0]));
    Put(scales + g * 4 + 2, half(bits == 6 ? group.scale[1] : group.offset));
  }
}

/// A row's scales in its tile, where a row is one of the tile's eight.
int64_t ScalesAt(DType grouped, int tile_row) {
  return WithBits(
      grouped, [&](auto bits) -> int64_t { return TileOf<bits()>::kScales + tile_row * TileOf<bits()>::kRowScales; });
}

/// The power of two such that the row's largest number keeps within 2^kUnitSteps of it.
float UnitOf(float largest) {
  int exponent = 0;
  std::frexp(largest, &exponent);
  return largest == 0 ? 1 : std::ldexp(1.0f, std::max(exponent - kUnitSteps, -120));
}

}  // namespace

std::optional<DType> GroupedTypeOf(DType file) {
  switch (file) {
    case DType::kQ4_0:
    case DType::kQ4_1:
    case DType::kQ4_K:
    case DType::kQ4_Z:
      return DType::kGrouped4;
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ5_K:
    case DType::kMXFP4:
      return DType::kGrouped5;
    case DType::kQ3_K:
    case DType::kQ6_K:
      return DType::kGrouped6;
    case DType::kQ8_0:
    case DType::kIQ4_NL:
    case DType::kIQ4_XS:
      return DType::kGrouped8;
    default:
      return std::nullopt;
  }
}

Status PackPanel(const HostTensor& host, int64_t panel, uint8_t* tiles, float* units) {
  if (!host.order.empty()) return InvalidArgument("inputs have an order of their own");
  const std::optional<DType> of_blocks = GroupedTypeOf(host.dtype);
  const bool has_blocks = of_blocks.has_value();
  const DType grouped = of_blocks.value_or(DType::kGrouped8);
  const int bits = BitsOf(grouped);
  const int64_t tile_bytes = TileBytes(grouped), row_bytes = has_blocks ? StorageBytes(host.dtype, host.cols) : 0;
  std::vector<Group> groups(static_cast<size_t>(host.cols / 32));
  std::vector<float> values(has_blocks ? 0 : static_cast<size_t>(host.cols));
  for (int64_t r = 0; r < kPanelRows && panel * kPanelRows + r < host.rows; ++r) {
    const auto* row = reinterpret_cast<const uint8_t*>(host.bytes.data()) + (panel * kPanelRows + r) * row_bytes;
    if (!has_blocks) ReadFileRow(host, panel * kPanelRows + r, values.data());
    float largest = 0;
    for (size_t b = 0; b < groups.size(); ++b) {
      Group& group = groups[b] = has_blocks ? ReadGroup(host.dtype, row, static_cast<int64_t>(b))
                                            : RoundGroup(std::span(values).subspan(b * 32).first<32>());
      for (const float x : {group.scale[0], group.scale[1], group.offset}) {
        if (!std::isfinite(x)) return Corruption("a weight holds a value that is not finite");
        largest = std::max(largest, std::fabs(x));
      }
      if (bits == 8 && std::ranges::count(group.q, uint8_t{0x80}) > 0) return InvalidArgument("a byte of -128");
    }
    units[r] = UnitOf(largest);
    for (size_t b = 0; b < groups.size(); ++b) {
      const auto chunk = static_cast<int64_t>(b) / kTileGroups;
      const int g = static_cast<int>(b % kTileGroups), tile_row = static_cast<int>(r % kTileRows);
      uint8_t* tile = tiles + TileNumber(r, chunk, 0) * tile_bytes;
      PackIntegers(groups[b], bits, tile_row, g, tile);
      PackScales(groups[b], bits, units[r], g, tile + ScalesAt(grouped, tile_row));
    }
  }
  return Status::Ok();
}

float GroupedValue(DType grouped, const uint8_t* tiles, const float* units, int64_t cols, int64_t row, int64_t col) {
  const int bits = BitsOf(grouped), g = static_cast<int>(col % kTileInputs / 32), i = static_cast<int>(col % 32);
  const int tile_row = static_cast<int>(row % kTileRows);
  const uint8_t* tile = tiles + TileNumber(row, col / kTileInputs, TilesAcross(cols)) * TileBytes(grouped);
  const uint8_t* scales = tile + ScalesAt(grouped, tile_row);
  const Place at = PlaceOf(i);
  const int lane = tile_row * 4 + at.lane, second = at.second * 16;
  if (bits == 8) {
    const uint8_t* word = tile + g / 2 * 512 + lane * 16 + g % 2 * 8 + i / 16 * 4;
    const int byte = QuantisedPlace(i % 16) % 4;
    const auto magnitude = static_cast<float>(word[byte] & 0x7f);
    return units[row] * HalfToFloat(Get(scales + g * 2)) * ((word[byte ^ 1] & 0x80) != 0 ? -magnitude : magnitude);
  }
  uint32_t q = Bits(tile, lane * 4 + g, LowShift(at.pair) + second) & 15;
  const uint8_t* high = tile + TileOf<4>::kHigh;
  if (bits == 5) q |= (Bits(high, lane, FifthShift(g, at.pair) + second) & 1) << 4;
  if (bits == 6) q |= (Bits(high, lane * 2 + g / 2, HighShift(g, at.pair) + second) & 3) << 4;
  const float first = HalfToFloat(Get(scales + g * 4)), other = HalfToFloat(Get(scales + g * 4 + 2));
  if (bits == 6) return units[row] * (i < 16 ? first : other) * (static_cast<float>(q) - 32);
  return units[row] * (first * static_cast<float>(q) + other);
}

}  // namespace ringside::cuda
