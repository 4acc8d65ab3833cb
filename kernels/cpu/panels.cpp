#include "kernels/cpu/panels.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "kernels/cpu/half.h"

namespace ringside::cpu {
namespace {

/// A block of 32 values of one output: integers as stored (without offset) and scales, between file and panel.
struct Block {
  uint8_t q[32];     // Q8_0: + 128
  uint16_t d, m;     // float16; of the super-block in K formats
  uint8_t scale[2];  // K formats: scale and minimum, or the two scales of Q6_K
};

uint16_t ReadU16(const uint8_t* p) {
  uint16_t x;
  std::memcpy(&x, p, 2);
  return x;
}
uint32_t ReadU32(const uint8_t* p) {
  uint32_t x;
  std::memcpy(&x, p, 4);
  return x;
}

void ReadNibbles(const uint8_t* p, uint8_t* q) {
  for (int i = 0; i < 16; ++i) q[i] = p[i] & 15, q[i + 16] = p[i] >> 4;
}

void ReadFifthBits(const uint8_t* p, uint8_t* q) {
  const uint32_t bits = ReadU32(p);
  for (int i = 0; i < 32; ++i) q[i] |= ((bits >> i) & 1) << 4;
}

/// The eight 6-bit scales and minima of Q4_K and Q5_K, packed in 12 bytes.
void ReadSixBitScales(const uint8_t* p, int64_t j, uint8_t* out) {
  if (j < 4) {
    out[0] = p[j] & 63, out[1] = p[j + 4] & 63;
  } else {
    out[0] = static_cast<uint8_t>((p[j + 4] & 15) | (p[j - 4] >> 6) << 4);
    out[1] = static_cast<uint8_t>((p[j + 4] >> 4) | (p[j] >> 6) << 4);
  }
}

/// Block j (0..7) of a super-block of Q4_K or Q5_K.
void ReadK(const uint8_t* p, int64_t j, bool fifth, Block* out) {
  out->d = ReadU16(p), out->m = ReadU16(p + 2);
  ReadSixBitScales(p + 4, j, out->scale);
  const uint8_t* low = p + (fifth ? 48 : 16) + 32 * (j / 2);
  for (int i = 0; i < 32; ++i) {
    out->q[i] = (j % 2 == 0 ? low[i] & 15 : low[i] >> 4);
    if (fifth) out->q[i] |= ((p[16 + i] >> j) & 1) << 4;
  }
}

void ReadQ6K(const uint8_t* p, int64_t j, Block* out) {
  const int64_t half = j / 4, part = j % 4;  // 128 values a half, 32 a part
  const uint8_t* low = p + 64 * half + 32 * (part % 2);
  const uint8_t* high = p + 128 + 32 * half;
  for (int i = 0; i < 32; ++i) {
    out->q[i] = static_cast<uint8_t>((part < 2 ? low[i] & 15 : low[i] >> 4) | ((high[i] >> (2 * part)) & 3) << 4);
  }
  out->scale[0] = p[192 + 2 * j], out->scale[1] = p[192 + 2 * j + 1];
  out->d = ReadU16(p + 208);
}

/// Block b of a row in file format.
void ReadBlock(DType dtype, const uint8_t* row, int64_t b, Block* out) {
  const DTypeTraits& traits = Traits(dtype);
  const uint8_t* p = row + (traits.block_elements == 32 ? b : b / 8) * traits.block_bytes;
  switch (dtype) {
    case DType::kQ8_0:
      out->d = ReadU16(p);
      for (int i = 0; i < 32; ++i) out->q[i] = p[2 + i] ^ 0x80;
      break;
    case DType::kQ4_0:
      out->d = ReadU16(p), ReadNibbles(p + 2, out->q);
      break;
    case DType::kQ4_1:
      out->d = ReadU16(p), out->m = ReadU16(p + 2), ReadNibbles(p + 4, out->q);
      break;
    case DType::kQ5_0:
      out->d = ReadU16(p), ReadNibbles(p + 6, out->q), ReadFifthBits(p + 2, out->q);
      break;
    case DType::kQ5_1:
      out->d = ReadU16(p), out->m = ReadU16(p + 2), ReadNibbles(p + 8, out->q), ReadFifthBits(p + 4, out->q);
      break;
    case DType::kQ4_K:
      ReadK(p, b % 8, false, out);
      break;
    case DType::kQ5_K:
      ReadK(p, b % 8, true, out);
      break;
    default:
      ReadQ6K(p, b % 8, out);
      break;
  }
}

struct Layout {
  int64_t header, blocks, high, scales, bytes;  // see panels.h
};
template <class L>
constexpr Layout LayoutOf(int64_t high = 0) {
  return {L::kHeader, L::kBlocks, high, L::kScales, L::kBytes};
}
Layout LayoutOf(DType dtype) {
  switch (dtype) {
    case DType::kQ8_0:
      return LayoutOf<Q8_0Layout>();
    case DType::kQ4_0:
      return LayoutOf<Q4_0Layout>();
    case DType::kQ4_1:
      return LayoutOf<Q4_1Layout>();
    case DType::kQ5_0:
      return LayoutOf<Q5_0Layout>(Q5_0Layout::kHigh);
    case DType::kQ5_1:
      return LayoutOf<Q5_1Layout>(Q5_1Layout::kHigh);
    case DType::kQ4_K:
      return LayoutOf<Q4_KLayout>();
    case DType::kQ5_K:
      return LayoutOf<Q5_KLayout>(Q5_KLayout::kHigh);
    default:
      return LayoutOf<Q6_KLayout>(Q6_KLayout::kHigh);
  }
}
bool IsK(DType dtype) { return Traits(dtype).block_elements == 256; }
bool HasMinimum(DType dtype) { return dtype == DType::kQ4_1 || dtype == DType::kQ5_1; }

/// The super-block's (or block's) float16 scales and the block itself, for block b of a panel.
struct Place {
  int64_t halves, block;
};
Place Find(DType dtype, const Layout& layout, int64_t b) {
  const int64_t unit = b / layout.blocks * (layout.header + layout.blocks * layout.bytes);
  const int64_t block = unit + layout.header + b % layout.blocks * layout.bytes;
  return {IsK(dtype) ? unit : block + layout.scales, block};
}

void WriteBlock(DType dtype, const Layout& layout, const Block& in, int64_t r, int64_t b, uint8_t* panel) {
  const Place place = Find(dtype, layout, b);
  std::memcpy(panel + place.halves + 2 * r, &in.d, 2);
  if (HasMinimum(dtype) || dtype == DType::kQ4_K || dtype == DType::kQ5_K) {
    std::memcpy(panel + place.halves + kHalfRow + 2 * r, &in.m, 2);
  }
  uint8_t* p = panel + place.block;
  if (IsK(dtype)) p[layout.scales + r] = in.scale[0], p[layout.scales + 16 + r] = in.scale[1];
  for (int i = 0; i < 32; ++i) {
    const int at = 4 * static_cast<int>(r) + i % 4, j = i / 4;
    if (dtype == DType::kQ8_0) {
      p[64 * j + at] = in.q[i];
      continue;
    }
    p[64 * (j % 4) + at] |= static_cast<uint8_t>((in.q[i] & 15) << (j < 4 ? 0 : 4));
    if (dtype == DType::kQ6_K) {
      p[layout.high + 64 * (j / 4) + at] |= static_cast<uint8_t>((in.q[i] >> 4) << (2 * (j % 4)));
    } else if (layout.high != 0) {
      p[layout.high + at] |= static_cast<uint8_t>((in.q[i] >> 4) << j);
    }
  }
}

/// The inverse of WriteBlock.
void ReadPanelBlock(DType dtype, const Layout& layout, const uint8_t* panel, int64_t r, int64_t b, Block* out) {
  const Place place = Find(dtype, layout, b);
  out->d = ReadU16(panel + place.halves + 2 * r);
  out->m = HasMinimum(dtype) || dtype == DType::kQ4_K || dtype == DType::kQ5_K
               ? ReadU16(panel + place.halves + kHalfRow + 2 * r)
               : uint16_t{0};
  const uint8_t* p = panel + place.block;
  if (IsK(dtype)) out->scale[0] = p[layout.scales + r], out->scale[1] = p[layout.scales + 16 + r];
  for (int i = 0; i < 32; ++i) {
    const int at = 4 * static_cast<int>(r) + i % 4, j = i / 4;
    if (dtype == DType::kQ8_0) {
      out->q[i] = p[64 * j + at];
      continue;
    }
    int q = (p[64 * (j % 4) + at] >> (j < 4 ? 0 : 4)) & 15;
    if (dtype == DType::kQ6_K) {
      q |= ((p[layout.high + 64 * (j / 4) + at] >> (2 * (j % 4))) & 3) << 4;
    } else if (layout.high != 0) {
      q |= ((p[layout.high + at] >> j) & 1) << 4;
    }
    out->q[i] = static_cast<uint8_t>(q);
  }
}

float Value(DType dtype, const Block& in, int i) {
  const float d = HalfToFloat(in.d), m = HalfToFloat(in.m);
  const int q = in.q[i];
  switch (dtype) {
    case DType::kQ8_0:
      return d * static_cast<float>(q - 128);
    case DType::kQ4_0:
      return d * static_cast<float>(q - 8);
    case DType::kQ5_0:
      return d * static_cast<float>(q - 16);
    case DType::kQ4_1:
    case DType::kQ5_1:
      return d * static_cast<float>(q) + m;
    case DType::kQ6_K:
      return d * static_cast<float>(static_cast<int8_t>(in.scale[i / 16]) * (q - 32));
    default:
      return d * static_cast<float>(in.scale[0]) * static_cast<float>(q) - m * static_cast<float>(in.scale[1]);
  }
}

float FloatValue(DType dtype, const uint8_t* p) {
  if (dtype == DType::kF32) return BitsToFloat(ReadU32(p));
  return dtype == DType::kF16 ? HalfToFloat(ReadU16(p)) : Bf16ToFloat(ReadU16(p));
}

}  // namespace

int64_t PanelBytes(DType dtype, int64_t cols) {
  if (!IsQuantised(dtype)) return 16 * cols * Traits(dtype).block_bytes;
  const Layout layout = LayoutOf(dtype);
  return cols / (32 * layout.blocks) * (layout.header + layout.blocks * layout.bytes);
}

Status CheckWeight(const HostTensor& host) {
  if (static_cast<size_t>(host.dtype) > static_cast<size_t>(DType::kQ6_K))
    return InvalidArgument("unknown element type");
  const DTypeTraits& traits = Traits(host.dtype);
  const std::string shape =
      std::to_string(host.rows) + " x " + std::to_string(host.cols) + " " + std::string(traits.name);
  constexpr int64_t kMost = int64_t{1} << 31;
  if (host.rows <= 0 || host.cols <= 0 || host.rows > kMost || host.cols > kMost) {
    return InvalidArgument("weight of impossible shape " + shape);
  }
  if (host.cols % traits.block_elements != 0) {
    return InvalidArgument("weight " + shape + ": columns must be a multiple of " +
                           std::to_string(traits.block_elements));
  }
  const int64_t row_bytes = StorageBytes(host.dtype, host.cols);
  if (host.bytes.size() % static_cast<size_t>(row_bytes) != 0 ||
      static_cast<int64_t>(host.bytes.size() / static_cast<size_t>(row_bytes)) != host.rows) {
    return InvalidArgument("weight " + shape + " does not have " + std::to_string(host.bytes.size()) + " bytes");
  }
  return Status::Ok();
}

void PackPanels(const HostTensor& host, int64_t first, int64_t last, uint8_t* panels) {
  const int64_t panel_bytes = PanelBytes(host.dtype, host.cols), row_bytes = StorageBytes(host.dtype, host.cols);
  const bool quantised = IsQuantised(host.dtype);
  const Layout layout = quantised ? LayoutOf(host.dtype) : Layout{};
  for (int64_t row = 16 * first; row < std::min(16 * last, host.rows); ++row) {
    const uint8_t* in = reinterpret_cast<const uint8_t*>(host.bytes.data()) + row * row_bytes;
    uint8_t* panel = panels + row / 16 * panel_bytes;
    if (quantised) {
      for (int64_t b = 0; b < host.cols / 32; ++b) {
        Block block{};
        ReadBlock(host.dtype, in, b, &block);
        WriteBlock(host.dtype, layout, block, row % 16, b, panel);
      }
    } else {
      const int64_t e = Traits(host.dtype).block_bytes;
      for (int64_t c = 0; c < host.cols; ++c) {
        std::memcpy(panel + (16 * c + row % 16) * e, in + c * e, static_cast<size_t>(e));
      }
    }
  }
}

void UnpackRow(DType dtype, const uint8_t* panels, int64_t cols, int64_t row, bool accumulate, float* y) {
  const uint8_t* panel = panels + row / 16 * PanelBytes(dtype, cols);
  const int64_t r = row % 16;
  if (!IsQuantised(dtype)) {
    const int64_t e = Traits(dtype).block_bytes;
    for (int64_t c = 0; c < cols; ++c) y[c] = (accumulate ? y[c] : 0) + FloatValue(dtype, panel + (16 * c + r) * e);
    return;
  }
  const Layout layout = LayoutOf(dtype);
  for (int64_t b = 0; b < cols / 32; ++b) {
    Block block{};
    ReadPanelBlock(dtype, layout, panel, r, b, &block);
    for (int i = 0; i < 32; ++i) y[32 * b + i] = (accumulate ? y[32 * b + i] : 0) + Value(dtype, block, i);
  }
}

}  // namespace ringside::cpu
