// Device layout of one-byte weights: row-major, each row zero-padded to whole groups of 16 inputs. In a group, bytes 4j
// ... 4j + 3 hold inputs 2j, 2j + 8, 2j + 1, 2j + 9, so that one word holds the elements of one lane in a 16 x 8
// operand of an MMA. Integers are stored as sign and magnitude, and the two bytes of each half word swap their sign
// bits. So the low byte of a half word reads as a subnormal 16-bit float with its sign on top, and the high byte does
// so after a byte swap. Host and device.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/host_device.h"
#include "kernels/tensor.h"

namespace ringside::cuda {

constexpr int kW8Group = 16;

RINGSIDE_HOST_DEVICE constexpr int64_t W8RowBytes(int64_t cols) { return (cols + kW8Group - 1) / kW8Group * kW8Group; }
/// Byte position of input i of a group.
RINGSIDE_HOST_DEVICE constexpr int W8Position(int i) { return i % 8 / 2 * 4 + i % 2 * 2 + i / 8; }

/// Permutes a row as written by QuantizeRow, padded to whole groups, into this layout.
inline void PackW8Row(DType dtype, std::span<const uint8_t> row, uint8_t* to) {
  const bool integers = dtype == DType::kI8;
  for (size_t group = 0; group < row.size(); group += kW8Group) {
    uint8_t signs[kW8Group];
    for (int i = 0; i < kW8Group; ++i) {
      const uint8_t q = row[group + static_cast<size_t>(i)];
      const int place = W8Position(i);
      to[group + static_cast<size_t>(place)] = integers && q >= 0x80 ? static_cast<uint8_t>(-q) : q;
      signs[place ^ 1] = integers ? q & 0x80 : 0;
    }
    for (size_t i = 0; i < kW8Group; ++i) to[group + i] |= signs[i];
  }
}

}  // namespace ringside::cuda
