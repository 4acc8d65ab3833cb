// How weights of one byte lie in device memory: row after row, each filled up with zeros to whole groups of 16 inputs.
// In a group, bytes 4j ... 4j + 3 hold inputs 2j, 2j + 8, 2j + 1, 2j + 9: what one lane holds of a 16 x 8 operand of
// the tensor cores is one word. Integers are stored as sign and magnitude, and the two bytes of each half of a word
// have their signs exchanged: so half a word holds its low byte's number as a float of 16 bits below the normal ones,
// sign on top, and its high byte's after an exchange of bytes. Host and device.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/host_device.h"
#include "kernels/tensor.h"

namespace ringside::cuda {

constexpr int kQuantisedGroup = 16;

RINGSIDE_HOST_DEVICE constexpr int64_t QuantisedRowBytes(int64_t cols) {
  return (cols + kQuantisedGroup - 1) / kQuantisedGroup * kQuantisedGroup;
}
/// Where input i of a group lies.
RINGSIDE_HOST_DEVICE constexpr int QuantisedPlace(int i) { return i % 8 / 2 * 4 + i % 2 * 2 + i / 8; }

/// A row as QuantiseRow leaves it, filled up to whole groups, to its place.
inline void PlaceQuantisedRow(DType dtype, std::span<const uint8_t> row, uint8_t* to) {
  const bool integers = dtype == DType::kI8;
  for (size_t group = 0; group < row.size(); group += kQuantisedGroup) {
    uint8_t signs[kQuantisedGroup];
    for (int i = 0; i < kQuantisedGroup; ++i) {
      const uint8_t q = row[group + static_cast<size_t>(i)];
      const int place = QuantisedPlace(i);
      to[group + static_cast<size_t>(place)] = integers && q >= 0x80 ? static_cast<uint8_t>(-q) : q;
      signs[place ^ 1] = integers ? q & 0x80 : 0;
    }
    for (size_t i = 0; i < kQuantisedGroup; ++i) to[group + i] |= signs[i];
  }
}

}  // namespace ringside::cuda
