#include "kernels/cuda/linear/block_quant_packing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "kernels/cuda/linear/block_quant_layout.h"
#include "kernels/cuda/linear/w8_layout.h"
#include "kernels/formats/code_values.h"
#include "kernels/formats/file_formats.h"
#include "kernels/formats/half.h"
#include "kernels/formats/row_quantization.h"

namespace ringside::cuda {
namespace {

/// 32 inputs of a row: q as stored in the tiles, and the affine map to values, scale[half] q + offset[half]. Types
/// without offsets apply the scale to q - kMiddle.
struct Group {
  uint8_t q[32];
  float scale[2], offset[2];

  void SetOffset(float x) { offset[0] = offset[1] = x; }
};

/// Quantizes unquantized values.
Group RoundGroup(std::span<const float, 32> values) {
  Group out{};
  out.scale[0] = out.scale[1] = QuantizeRow(DType::kI8, values, out.q);
  return out;
}

/// The float32 scale of a block.
float FloatScale(const FileBlock& block) { return BitsToFloat(block.d | static_cast<uint32_t>(block.m) << 16); }

/// Codes become their values, plus `offset`.
void LookUpCodes(const int8_t (&values)[16], int offset, Group* group) {
  for (uint8_t& q : group->q) q = static_cast<uint8_t>(values[q] + offset);
}

constexpr int kMiddleOfSix = 32;

/// Integers of 6 bits have a scale per 16 inputs, bytes one per 32.
DType BlockQuantTypeOfCodes(const CodeForm& codes) {
  const auto fits = [](int8_t value) { return value >= -kMiddleOfSix && value < kMiddleOfSix; };
  return codes.has_halves && std::ranges::all_of(codes.values, fits) ? DType::kBlockQuant6 : DType::kBlockQuant8;
}

Group ReadCodes(const CodeForm& codes, const FileBlock& block) {
  Group out{};
  std::copy(std::begin(block.q), std::end(block.q), out.q);
  for (int h = 0; h < 2; ++h) {
    out.scale[h] = HalfToFloat(block.d) * static_cast<float>(block.scale[codes.has_halves ? h : 0]) * codes.factor;
  }
  const bool bytes = BlockQuantTypeOfCodes(codes) == DType::kBlockQuant8;
  LookUpCodes(codes.values, bytes ? 0 : kMiddleOfSix, &out);
  if (!bytes || out.scale[0] == out.scale[1]) return out;
  std::array<float, 32> values;
  for (int i = 0; i < 32; ++i) values[static_cast<size_t>(i)] = FileBlockValue(codes.form, block, i);
  return RoundGroup(values);
}

Group ReadGroup(DType file, const uint8_t* row, int64_t b) {
  FileBlock block{};
  ReadFileBlock(file, row, b, &block);
  Group out{};
  std::copy(std::begin(block.q), std::end(block.q), out.q);
  const float d = HalfToFloat(block.d), m = HalfToFloat(block.m);
  out.scale[0] = out.scale[1] = d;
  const DType form = Traits(file).form;
  switch (form) {
    case DType::kQ8_0:
      for (uint8_t& q : out.q) q ^= 0x80;  // to signed bytes
      break;
    case DType::kQ4_0:
      out.SetOffset(-8 * d);
      break;
    case DType::kQ5_0:
      out.SetOffset(-16 * d);
      break;
    case DType::kQ4_1:
    case DType::kQ5_1:
      out.SetOffset(m);
      break;
    case DType::kQ2_K:
      for (int h = 0; h < 2; ++h) {
        out.scale[h] = d * static_cast<float>(block.scale[h] & 15);
        out.offset[h] = -m * static_cast<float>(block.scale[h] >> 4);
      }
      break;
    case DType::kQ3_K:
    case DType::kQ6_K:
      for (int h = 0; h < 2; ++h) out.scale[h] = d * static_cast<float>(static_cast<int8_t>(block.scale[h]));
      break;
    case DType::kIQ4_XS:
      out.scale[0] = out.scale[1] = d * static_cast<float>(static_cast<int8_t>(block.scale[0]));
      [[fallthrough]];
    case DType::kIQ4_NL:
      LookUpCodes(kIq4Values, 0, &out);
      break;
    case DType::kScaledNVFP4:
      for (int h = 0; h < 2; ++h) {
        out.scale[h] = HasFiniteScales(form, block) ? 0.5f * FloatScale(block) * E4M3ToFloat(block.scale[h])
                                                    : std::numeric_limits<float>::infinity();
      }
      LookUpCodes(kMxfp4Values, kMiddleOfSix, &out);
      break;
    case DType::kScaledI8:
      out.scale[0] = out.scale[1] = FloatScale(block);
      for (uint8_t& q : out.q) q ^= 0x80;
      break;
    case DType::kMXFP4:
      out.scale[0] = out.scale[1] = HasFiniteScales(file, block) ? std::ldexp(1.0f, block.scale[0] - 128)
                                                                 : std::numeric_limits<float>::infinity();
      break;
    case DType::kQ4_Z:
      out.SetOffset(-d * static_cast<float>(block.scale[0]));
      break;
    case DType::kQ4_K:
    case DType::kQ5_K:
      out.scale[0] = out.scale[1] = d * static_cast<float>(block.scale[0]);
      out.SetOffset(-m * static_cast<float>(block.scale[1]));
      break;
    default:
      return ReadCodes(*FindCodeForm(form), block);
  }
  return out;
}

void Put(uint8_t* to, uint16_t bits) { std::memcpy(to, &bits, sizeof bits); }
uint16_t Get(const uint8_t* from) {
  uint16_t bits;
  std::memcpy(&bits, from, sizeof bits);
  return bits;
}

/// ORs `bits` into word `word` from bit `shift` on.
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

/// Position of input i of a group of 32: its lane within the row, the lane's pair (of four), the element of the pair.
struct Place {
  int lane, pair, second;
};
Place PlaceOf(int i) { return {i % 8 / 2, i / 8, i % 2}; }
template <int kBits>
int LowBit(const Place& at) {
  return TileOf<kBits>::kHasCodes ? CodeShift(at.pair) + at.second * 8 : LowShift(at.pair) + at.second * 16;
}

/// Words of a lane's group: `bytes` has two halves with two groups each, and four words per lane, two per group.
uint8_t* WordsOfBytes(uint8_t* tile, int g, int lane) { return tile + g / 2 * 512 + lane * 16 + g % 2 * 8; }

/// `type`: kI8 or kF8E4M3.
void PackBytes(DType type, const uint8_t (&q)[32], int row, int g, uint8_t* tile) {
  for (int h = 0; h < 2; ++h) {
    uint8_t placed[kW8Group];
    PackW8Row(type, {q + h * kW8Group, kW8Group}, placed);
    for (int j = 0; j < 4; ++j) std::memcpy(WordsOfBytes(tile, g, row * 4 + j) + h * 4, placed + j * 4, 4);
  }
}

template <int kBits>
void PackIntegers(const Group& group, int row, int g, uint8_t* tile) {
  using Tile = TileOf<kBits>;
  if (kBits == 8) return PackBytes(DType::kI8, group.q, row, g, tile);
  for (int i = 0; i < 32; ++i) {
    const Place at = PlaceOf(i);
    const int lane = row * 4 + at.lane, second = at.second * 16;
    if (Tile::kHasLow) Set(tile, lane * 4 + g, LowBit<kBits>(at), group.q[i] & 15);
    if (Tile::kHasPair) {
      Set(tile + Tile::kPairs, lane * 2 + g / 2, PairShift(g, at.pair) + second, group.q[i] >> Tile::kPairShift & 3);
    }
    if (Tile::kHasSingle) {
      Set(tile + Tile::kSingles, lane, SingleShift(g, at.pair) + second, group.q[i] >> Tile::kSingleShift & 1);
    }
  }
}

/// Byte offset of the scale of half h of group g of a tile row.
template <int kBits>
int64_t ScaleAt(int tile_row, int g, int h) {
  using Tile = TileOf<kBits>;
  return Tile::kScales + tile_row * Tile::kRowScales + (g * Tile::kHalves + h) * Tile::kScaleBytes;
}
template <int kBits>
void PackScales(const Group& group, float unit, int tile_row, int g, uint8_t* tile) {
  for (int h = 0; h < TileOf<kBits>::kHalves; ++h) {
    uint8_t* to = tile + ScaleAt<kBits>(tile_row, g, h);
    Put(to, FloatToHalf(group.scale[h] / unit));
    if (TileOf<kBits>::kHasOffset) Put(to + 2, FloatToHalf(group.offset[h] / unit));
  }
}

/// Input i of group g of a tile row, in units of the row, or of the tile's scale.
template <int kBits>
float ElementOf(const uint8_t* tile, int tile_row, int g, int i) {
  using Tile = TileOf<kBits>;
  const Place at = PlaceOf(i);
  const int lane = tile_row * 4 + at.lane, second = at.second * 16;
  const uint8_t* word = tile + g / 2 * 512 + lane * 16 + g % 2 * 8 + i / 16 * 4;  // of bytes
  const int byte = W8Position(i % 16) % 4;
  if (kBits == kE4M3) return E4M3ToFloat(word[byte]);
  const uint8_t* of_scale = tile + ScaleAt<kBits>(tile_row, g, i / 16 % Tile::kHalves);
  const float scale = HalfToFloat(Get(of_scale));
  if (kBits == 8) {
    const auto magnitude = static_cast<float>(word[byte] & 0x7f);
    return scale * ((word[byte ^ 1] & 0x80) != 0 ? -magnitude : magnitude);
  }
  uint32_t q = 0;
  if (Tile::kHasLow) q |= Bits(tile, lane * 4 + g, LowBit<kBits>(at)) & 15;
  if (Tile::kHasPair) {
    q |= (Bits(tile + Tile::kPairs, lane * 2 + g / 2, PairShift(g, at.pair) + second) & 3) << Tile::kPairShift;
  }
  if (Tile::kHasSingle) {
    q |= (Bits(tile + Tile::kSingles, lane, SingleShift(g, at.pair) + second) & 1) << Tile::kSingleShift;
  }
  if (kBits == kE2M1) return scale * kMxfp4Values[q];
  if (!Tile::kHasOffset) return scale * (static_cast<float>(q) - Tile::kMiddle);
  return scale * static_cast<float>(q) + HalfToFloat(Get(of_scale + 2));
}

/// Packs a tile of E4M3 values; missing rows and inputs remain zero. Returns its scale in *scale.
Status PackE4M3Tile(const HostTensor& host, int64_t first_row, int64_t chunk, uint8_t* tile, float* scale) {
  const int64_t rows = std::min<int64_t>(kTileRows, host.rows - first_row),
                groups = std::min<int64_t>(kTileGroups, host.cols / 32 - chunk * kTileGroups);
  const auto row_bytes = static_cast<size_t>(StorageBytes(host.dtype, host.cols));
  for (int64_t r = 0; r < rows; ++r) {
    const auto* row =
        reinterpret_cast<const uint8_t*>(host.bytes.data()) + static_cast<size_t>(first_row + r) * row_bytes;
    for (int64_t g = 0; g < groups; ++g) {
      FileBlock block{};
      ReadFileBlock(host.dtype, row, chunk * kTileGroups + g, &block);
      if (!HasFiniteScales(host.dtype, block)) return Corruption("a weight contains a non-finite value");
      if (r == 0 && g == 0) *scale = FloatScale(block);
      if (FloatScale(block) != *scale) return InvalidArgument("E4M3 values of a tile have different scales");
      PackBytes(DType::kF8E4M3, block.q, static_cast<int>(r), static_cast<int>(g), tile);
    }
  }
  if (*scale == 0) {
    *scale = 1;
    std::fill_n(tile, TileOf<kE4M3>::kBytes, uint8_t{0});
  }
  const float magnitude = std::fabs(*scale);
  if (magnitude >= kMinTileScale && magnitude <= kMaxTileScale) return Status::Ok();
  return InvalidArgument(
      fmt::format("the scale {} of an E4M3 tile is not within {} ... {}", *scale, kMinTileScale, kMaxTileScale));
}

Status PackE4M3Panel(const HostTensor& host, int64_t panel, uint8_t* tiles, float* scales) {
  for (int64_t first = 0; first < kPanelRows && panel * kPanelRows + first < host.rows; first += kTileRows) {
    float previous = 0;
    for (int64_t chunk = 0; chunk < TilesAcross(host.cols); ++chunk) {
      float* scale = scales + TileScaleAt(first, chunk, host.cols);
      uint8_t* tile = tiles + TileNumber(first, chunk, 0) * TileOf<kE4M3>::kBytes;
      RETURN_IF_ERROR(PackE4M3Tile(host, panel * kPanelRows + first, chunk, tile, scale));
      scale[kRatio] = chunk == 0 ? 1 : previous / *scale;
      previous = *scale;
    }
  }
  return Status::Ok();
}

/// The power of two that keeps the row's largest number below 2^8 units. For E2M1 codes a largest number that is a
/// power of two becomes 1 unit, because kernels multiply it by the largest power of two in T (kOfCodes).
float UnitOf(float largest, int bits) {
  int exponent = 0;
  std::frexp(largest, &exponent);
  return largest == 0 ? 1 : std::ldexp(1.0f, std::max(exponent - (bits == kE2M1 ? 1 : 8), -120));
}

}  // namespace

std::optional<DType> BlockQuantTypeOf(DType file) {
  static constexpr struct {
    DType form, device;
  } kTypes[] = {{DType::kQ2_K, DType::kBlockQuant2},         {DType::kQ3_K, DType::kBlockQuant3},
                {DType::kQ4_0, DType::kBlockQuant4},         {DType::kQ4_1, DType::kBlockQuant4},
                {DType::kQ4_K, DType::kBlockQuant4},         {DType::kQ4_Z, DType::kBlockQuant4},
                {DType::kQ5_0, DType::kBlockQuant5},         {DType::kQ5_1, DType::kBlockQuant5},
                {DType::kQ5_K, DType::kBlockQuant5},         {DType::kQ6_K, DType::kBlockQuant6},
                {DType::kScaledNVFP4, DType::kBlockQuant6},  {DType::kQ8_0, DType::kBlockQuant8},
                {DType::kIQ4_NL, DType::kBlockQuant8},       {DType::kIQ4_XS, DType::kBlockQuant8},
                {DType::kScaledI8, DType::kBlockQuant8},     {DType::kMXFP4, DType::kBlockQuantE2M1},
                {DType::kScaledE4M3, DType::kBlockQuantE4M3}};
  const DType form = Traits(file).form;
  const auto* found = std::ranges::find_if(kTypes, [&](const auto& row) { return row.form == form; });
  if (found != std::end(kTypes)) return found->device;
  const CodeForm* codes = FindCodeForm(form);
  return codes == nullptr ? std::nullopt : std::optional(BlockQuantTypeOfCodes(*codes));
}

Status PackPanel(const HostTensor& host, int64_t panel, uint8_t* tiles, float* scales) {
  const std::optional<DType> of_blocks = BlockQuantTypeOf(host.dtype);
  if (of_blocks == DType::kBlockQuantE4M3) return PackE4M3Panel(host, panel, tiles, scales);
  float* const units = scales;
  const bool has_blocks = of_blocks.has_value();
  const DType block_type = of_blocks.value_or(DType::kBlockQuant8);
  const int bits = BitsOf(block_type);
  const int64_t tile_bytes = TileBytes(block_type), row_bytes = has_blocks ? StorageBytes(host.dtype, host.cols) : 0;
  std::vector<Group> groups(static_cast<size_t>(host.cols / 32));
  std::vector<float> values(has_blocks ? 0 : static_cast<size_t>(host.cols));
  for (int64_t r = 0; r < kPanelRows && panel * kPanelRows + r < host.rows; ++r) {
    const auto* row = reinterpret_cast<const uint8_t*>(host.bytes.data()) + (panel * kPanelRows + r) * row_bytes;
    if (!has_blocks) ReadFileRow(host, panel * kPanelRows + r, values.data());
    float largest = 0;
    for (size_t b = 0; b < groups.size(); ++b) {
      Group& group = groups[b] = has_blocks ? ReadGroup(host.dtype, row, static_cast<int64_t>(b))
                                            : RoundGroup(std::span(values).subspan(b * 32).first<32>());
      for (const float x : {group.scale[0], group.scale[1], group.offset[0], group.offset[1]}) {
        if (!std::isfinite(x)) return Corruption("a weight contains a non-finite value");
        largest = std::max(largest, std::fabs(x));
      }
      if (bits == 8 && std::ranges::count(group.q, uint8_t{0x80}) > 0)
        return InvalidArgument("a Q8_0 value of -128 cannot be represented");
    }
    units[r] = UnitOf(largest, bits);
    WithBits(bits, [&](auto constant) {
      const int tile_row = static_cast<int>(r % kTileRows);
      for (size_t b = 0; b < groups.size(); ++b) {
        const auto chunk = static_cast<int64_t>(b) / kTileGroups;
        const int g = static_cast<int>(b % kTileGroups);
        uint8_t* tile = tiles + TileNumber(r, chunk, 0) * tile_bytes;
        PackIntegers<constant()>(groups[b], tile_row, g, tile);
        PackScales<constant()>(groups[b], units[r], tile_row, g, tile);
      }
    });
  }
  return Status::Ok();
}

float BlockQuantValue(DType block_type, const uint8_t* tiles, const float* scales, int64_t cols, int64_t row,
                      int64_t col) {
  const int g = static_cast<int>(col % kTileInputs / 32), i = static_cast<int>(col % 32);
  const int tile_row = static_cast<int>(row % kTileRows);
  const uint8_t* tile = tiles + TileNumber(row, col / kTileInputs, TilesAcross(cols)) * TileBytes(block_type);
  const float by = scales[block_type == DType::kBlockQuantE4M3 ? TileScaleAt(row, col / kTileInputs, cols) : row];
  return by * WithBits(block_type, [&](auto bits) { return ElementOf<bits()>(tile, tile_row, g, i); });
}

}  // namespace ringside::cuda
