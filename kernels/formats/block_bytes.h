// Numbers in the blocks of a file, little-endian and not aligned. THREAD: any.
#pragma once

#include <cstdint>
#include <cstring>

namespace ringside {

inline uint16_t ReadU16(const uint8_t* p) {
  uint16_t x;
  std::memcpy(&x, p, sizeof(x));
  return x;
}
inline uint32_t ReadU32(const uint8_t* p) {
  uint32_t x;
  std::memcpy(&x, p, sizeof(x));
  return x;
}

}  // namespace ringside
