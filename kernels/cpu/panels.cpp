#include "kernels/cpu/panels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/formats/file_formats.h"
#include "kernels/formats/half.h"

namespace ringside::cpu {
namespace {

uint16_t ReadU16(const uint8_t* p) {
  uint16_t x;
  std::memcpy(&x, p, 2);
  return x;
}

struct Layout {
  int64_t header, blocks, high, scales, bytes;  // see panels.h
  int low_bits, high_bits;                      // bits of an integer stored at the block's start and at `high`
  int halves, byte_scales;                      // number of float16 scales, and of byte scales
};
template <class L>
constexpr Layout LayoutOf(int low_bits, int high_bits, int halves, int byte_scales) {
  int64_t high = 0;
  if constexpr (requires { L::kHigh; }) high = L::kHigh;
  return {L::kHeader, L::kBlocks, high, L::kScales, L::kBytes, low_bits, high_bits, halves, byte_scales};
}
Layout LayoutOf(DType dtype) {
  switch (dtype) {
    case DType::kQ8_0:
      return LayoutOf<Q8_0Layout>(8, 0, 1, 0);
    case DType::kQ4_0:
    case DType::kIQ4_NL:
      return LayoutOf<Q4_0Layout>(4, 0, 1, 0);
    case DType::kQ4_1:
      return LayoutOf<Q4_1Layout>(4, 0, 2, 0);
    case DType::kQ5_0:
      return LayoutOf<Q5_0Layout>(4, 1, 1, 0);
    case DType::kQ5_1:
      return LayoutOf<Q5_1Layout>(4, 1, 2, 0);
    case DType::kQ4_K:
      return LayoutOf<Q4_KLayout>(4, 0, 2, 2);
    case DType::kQ5_K:
      return LayoutOf<Q5_KLayout>(4, 1, 2, 2);
    case DType::kQ6_K:
      return LayoutOf<Q6_KLayout>(4, 2, 1, 2);
    case DType::kQ2_K:
      return LayoutOf<Q2_KLayout>(2, 0, 2, 2);
    case DType::kQ3_K:
      return LayoutOf<Q3_KLayout>(2, 1, 1, 2);
    case DType::kIQ4_XS:
      return LayoutOf<IQ4_XSLayout>(4, 0, 1, 1);
    case DType::kMXFP4:
      return LayoutOf<MXFP4Layout>(4, 0, 0, 1);
    default:
      return LayoutOf<Q4_ZLayout>(4, 0, 1, 1);
  }
}

/// Offsets of the scales and the integers of block b of a panel.
struct Place {
  int64_t halves, bytes, block;
};
Place Find(const Layout& layout, int64_t b) {
  const int64_t unit = b / layout.blocks * (layout.header + layout.blocks * layout.bytes);
  const int64_t block = unit + layout.header + b % layout.blocks * layout.bytes, scales = block + layout.scales;
  if (layout.header > 0) return {unit, scales, block};
  return {scales, scales + layout.halves * kHalfRow, block};
}

/// Position of `bits` bits of input i of output r within a block.
struct BitPosition {
  int64_t byte;
  int shift;
};
BitPosition FindBits(int bits, int64_t r, int i) {
  const int j = i / 4;
  const int64_t at = 4 * r + i % 4;
  switch (bits) {
    case 8:
      return {64 * j + at, 0};
    case 4:
      return {64 * (j % 4) + at, j / 4 * 4};
    case 2:
      return {64 * (j / 4) + at, j % 4 * 2};
    default:
      return {at, j};
  }
}
void PutBits(int bits, int64_t r, int i, int value, uint8_t* p) {
  if (bits == 0) return;
  const BitPosition place = FindBits(bits, r, i);
  p[place.byte] |= static_cast<uint8_t>((value & ((1 << bits) - 1)) << place.shift);
}
int GetBits(int bits, int64_t r, int i, const uint8_t* p) {
  if (bits == 0) return 0;
  const BitPosition place = FindBits(bits, r, i);
  return (p[place.byte] >> place.shift) & ((1 << bits) - 1);
}

void WriteBlock(const Layout& layout, const FileBlock& in, int64_t r, int64_t b, uint8_t* panel) {
  const Place place = Find(layout, b);
  const uint16_t halves[] = {in.d, in.m};
  for (int k = 0; k < layout.halves; ++k) std::memcpy(panel + place.halves + k * kHalfRow + 2 * r, &halves[k], 2);
  for (int k = 0; k < layout.byte_scales; ++k) panel[place.bytes + 16 * k + r] = in.scale[k];
  uint8_t* p = panel + place.block;
  for (int i = 0; i < 32; ++i) {
    PutBits(layout.low_bits, r, i, in.q[i], p);
    PutBits(layout.high_bits, r, i, in.q[i] >> layout.low_bits, p + layout.high);
  }
}

/// The inverse of WriteBlock.
FileBlock ReadPanelBlock(const Layout& layout, const uint8_t* panel, int64_t r, int64_t b) {
  const Place place = Find(layout, b);
  FileBlock out{};
  uint16_t* halves[] = {&out.d, &out.m};
  for (int k = 0; k < layout.halves; ++k) *halves[k] = ReadU16(panel + place.halves + k * kHalfRow + 2 * r);
  for (int k = 0; k < layout.byte_scales; ++k) out.scale[k] = panel[place.bytes + 16 * k + r];
  const uint8_t* p = panel + place.block;
  for (int i = 0; i < 32; ++i) {
    out.q[i] = static_cast<uint8_t>(GetBits(layout.low_bits, r, i, p) | GetBits(layout.high_bits, r, i, p + layout.high)
                                                                            << layout.low_bits);
  }
  return out;
}

/// Packs a row into a panel of kBF16; false if a value is not finite.
bool PackAsBf16(const HostTensor& host, int64_t row, uint8_t* panel) {
  std::vector<float> values(static_cast<size_t>(host.cols));
  ReadFileRow(host, row, values.data());
  uint8_t* to = panel + 2 * (row % 16);
  for (const float value : values) {
    const uint16_t bits = FloatToBf16(value);
    std::memcpy(to, &bits, 2);
    to += 32;
  }
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

}  // namespace

int64_t PanelBytes(DType dtype, int64_t cols) {
  if (!IsQuantized(dtype)) return 16 * cols * Traits(dtype).block_bytes;
  const Layout layout = LayoutOf(dtype);
  return cols / (32 * layout.blocks) * (layout.header + layout.blocks * layout.bytes);
}

bool PackPanels(const HostTensor& host, int64_t first, int64_t last, uint8_t* panels) {
  const int64_t panel_bytes = PanelBytes(StorageTypeOf(host.dtype), host.cols);
  const int64_t row_bytes = StorageBytes(host.dtype, host.cols);
  const bool quantized = IsQuantized(StorageTypeOf(host.dtype));
  const Layout layout = quantized ? LayoutOf(host.dtype) : Layout{};
  bool finite = true;
  for (int64_t row = 16 * first; row < std::min(16 * last, host.rows); ++row) {
    const uint8_t* in = reinterpret_cast<const uint8_t*>(host.bytes.data()) + row * row_bytes;
    uint8_t* panel = panels + row / 16 * panel_bytes;
    if (quantized) {
      for (int64_t b = 0; b < host.cols / 32; ++b) {
        FileBlock block{};
        ReadFileBlock(host.dtype, in, b, &block);
        finite &= HasFiniteScales(host.dtype, block);
        WriteBlock(layout, block, row % 16, b, panel);
      }
    } else if (StorageTypeOf(host.dtype) != host.dtype) {
      finite &= PackAsBf16(host, row, panel);
    } else {
      const int64_t e = Traits(host.dtype).block_bytes;
      for (int64_t c = 0; c < host.cols; ++c) {
        std::memcpy(panel + (16 * c + row % 16) * e, in + c * e, static_cast<size_t>(e));
      }
    }
  }
  return finite;
}

void UnpackRow(DType dtype, const uint8_t* panels, int64_t cols, int64_t row, bool accumulate, float* y) {
  const uint8_t* panel = panels + row / 16 * PanelBytes(dtype, cols);
  const int64_t r = row % 16;
  const auto put = [&](int64_t c, float value) { y[c] = accumulate ? y[c] + value : value; };
  if (!IsQuantized(dtype)) {
    const int64_t e = Traits(dtype).block_bytes;
    for (int64_t c = 0; c < cols; ++c) put(c, FloatValue(dtype, panel + (16 * c + r) * e));
    return;
  }
  const Layout layout = LayoutOf(dtype);
  for (int64_t b = 0; b < cols / 32; ++b) {
    const FileBlock block = ReadPanelBlock(layout, panel, r, b);
    for (int i = 0; i < 32; ++i) put(32 * b + i, FileBlockValue(dtype, block, i));
  }
}

}  // namespace ringside::cpu
