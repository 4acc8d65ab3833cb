#include "kernels/cpu/panels.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/formats/block_bytes.h"
#include "kernels/formats/file_formats.h"

namespace ringside::cpu {
namespace {

/// A PanelLayout at run time.
struct Layout {
  int low_bits, high_bits, halves, byte_scales, floats;
  int64_t blocks, header, high, scales, bytes;
};
template <class L>
constexpr Layout MakeLayout() {
  return {L::kLowBits, L::kHighBits, L::kHalves,   L::kByteScales, L::kFloats,
          L::kBlocks,  L::kHeader,   L::kHighPart, L::kScales,     L::kBytes};
}
Layout LayoutOf(DType dtype) {
  switch (dtype) {
#define PANEL(type, ...) \
  case DType::k##type:   \
    return MakeLayout<type##Layout>();
#include "kernels/cpu/panel_types.def"
#undef PANEL
    default:
      CheckFailed(__FILE__, __LINE__, "a type without panels");
  }
}
/// Offsets of the scales and the integers of block b of a panel.
struct Place {
  int64_t halves, floats, bytes, block;
};
Place Find(const Layout& layout, int64_t b) {
  const int64_t unit = b / layout.blocks * (layout.header + layout.blocks * layout.bytes);
  const int64_t block = unit + layout.header + b % layout.blocks * layout.bytes, scales = block + layout.scales;
  const int64_t wide = layout.header > 0 ? unit : scales, floats = wide + layout.halves * kHalfRow;
  return {wide, floats, layout.header > 0 ? scales : floats + layout.floats * kFloatRow, block};
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
  if (layout.floats > 0) std::memcpy(panel + place.floats + 4 * r, halves, 4);
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
  if (layout.floats > 0) {
    out.d = ReadU16(panel + place.floats + 4 * r), out.m = ReadU16(panel + place.floats + 4 * r + 2);
  }
  for (int k = 0; k < layout.byte_scales; ++k) out.scale[k] = panel[place.bytes + 16 * k + r];
  const uint8_t* p = panel + place.block;
  for (int i = 0; i < 32; ++i) {
    out.q[i] = static_cast<uint8_t>(GetBits(layout.low_bits, r, i, p) | GetBits(layout.high_bits, r, i, p + layout.high)
                                                                            << layout.low_bits);
  }
  return out;
}

/// Offset in a panel of kScaledE4M3 of the scale of output 0 and a unit.
int64_t E4M3UnitAt(int64_t unit) { return unit * (kFloatRow + 16 * kE4M3Unit); }

bool PackE4M3Row(const uint8_t* row, int64_t cols, int64_t r, uint8_t* panel) {
  bool finite = true;
  for (int64_t b = 0; b < cols / kE4M3Unit; ++b) {
    FileBlock block{};
    ReadFileBlock(DType::kScaledE4M3, row, b, &block);
    finite &= HasFiniteScales(DType::kScaledE4M3, block);
    uint8_t* unit = panel + E4M3UnitAt(b);
    const uint16_t scale[] = {block.d, block.m};
    std::memcpy(unit + 4 * r, scale, 4);
    for (int64_t i = 0; i < kE4M3Unit; ++i) unit[kFloatRow + 16 * i + r] = block.q[i];
  }
  return finite;
}
FileBlock ReadE4M3Unit(const uint8_t* panel, int64_t r, int64_t b) {
  const uint8_t* unit = panel + E4M3UnitAt(b);
  FileBlock out{};
  out.d = ReadU16(unit + 4 * r), out.m = ReadU16(unit + 4 * r + 2);
  for (int64_t i = 0; i < kE4M3Unit; ++i) out.q[i] = unit[kFloatRow + 16 * i + r];
  return out;
}

bool PackIntegersOfRow(const Layout& layout, const HostTensor& host, const uint8_t* row, int64_t r, uint8_t* panel) {
  bool finite = true;
  for (int64_t b = 0; b < host.cols / 32; ++b) {
    FileBlock block{};
    ReadFileBlock(host.dtype, row, b, &block);
    finite &= HasFiniteScales(Traits(host.dtype).form, block);
    WriteBlock(layout, block, r, b, panel);
  }
  return finite;
}

}  // namespace

int64_t PanelBytes(DType dtype, int64_t cols) {
  if (dtype == DType::kScaledE4M3) return E4M3UnitAt(cols / kE4M3Unit);
  if (!IsQuantized(dtype)) return 16 * cols * Traits(dtype).block_bytes;
  const Layout layout = LayoutOf(dtype);
  return cols / (32 * layout.blocks) * (layout.header + layout.blocks * layout.bytes);
}

bool PackPanels(const HostTensor& host, int64_t first, int64_t last, uint8_t* panels) {
  const DType form = Traits(host.dtype).form;
  const int64_t panel_bytes = PanelBytes(form, host.cols), row_bytes = StorageBytes(host.dtype, host.cols);
  const Layout layout = HasIntegers(form) ? LayoutOf(form) : Layout{};
  bool finite = true;
  for (int64_t row = 16 * first; row < std::min(16 * last, host.rows); ++row) {
    const uint8_t* in = reinterpret_cast<const uint8_t*>(host.bytes.data()) + row * row_bytes;
    uint8_t* panel = panels + row / 16 * panel_bytes;
    if (HasIntegers(form)) {
      finite &= PackIntegersOfRow(layout, host, in, row % 16, panel);
    } else if (form == DType::kScaledE4M3) {
      finite &= PackE4M3Row(in, host.cols, row % 16, panel);
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
  const Layout layout = HasIntegers(dtype) ? LayoutOf(dtype) : Layout{};
  for (int64_t b = 0; b < cols / 32; ++b) {
    const FileBlock block = HasIntegers(dtype) ? ReadPanelBlock(layout, panel, r, b) : ReadE4M3Unit(panel, r, b);
    for (int i = 0; i < 32; ++i) put(32 * b + i, FileBlockValue(dtype, block, i));
  }
}

}  // namespace ringside::cpu
