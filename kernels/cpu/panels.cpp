#include "kernels/cpu/panels.h"

#include <algorithm>
#include <cstring>

#include "kernels/file_formats.h"

namespace ringside::cpu {
namespace {

uint16_t ReadU16(const uint8_t* p) {
  uint16_t x;
  std::memcpy(&x, p, 2);
  return x;
}

struct Layout {
  int64_t header, blocks, high, scales, bytes;  // see panels.h
};
template <class L>
constexpr Layout LayoutOf(int64_t high = 0) {
  return {.header = L::kHeader, .blocks = L::kBlocks, .high = high, .scales = L::kScales, .bytes = L::kBytes};
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

void WriteBlock(DType dtype, const Layout& layout, const FileBlock& in, int64_t r, int64_t b, uint8_t* panel) {
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
void ReadPanelBlock(DType dtype, const Layout& layout, const uint8_t* panel, int64_t r, int64_t b, FileBlock* out) {
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

}  // namespace

int64_t PanelBytes(DType dtype, int64_t cols) {
  if (!IsQuantised(dtype)) return 16 * cols * Traits(dtype).block_bytes;
  const Layout layout = LayoutOf(dtype);
  return cols / (32 * layout.blocks) * (layout.header + layout.blocks * layout.bytes);
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
        FileBlock block{};
        ReadFileBlock(host.dtype, in, b, &block);
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
    FileBlock block{};
    ReadPanelBlock(dtype, layout, panel, r, b, &block);
    for (int i = 0; i < 32; ++i) y[32 * b + i] = (accumulate ? y[32 * b + i] : 0) + FileBlockValue(dtype, block, i);
  }
}

}  // namespace ringside::cpu
