// Partial loads of 16-bit numbers through a copy, for instruction sets without masked loads. Included at the end of
// their lanes.
#pragma once

namespace ringside::cpu::RINGSIDE_LANES {
namespace {

LANES_INLINE F32x16 LoadF16Partial(const uint16_t* p, int64_t n) {
  uint16_t copy[16] = {};
  __builtin_memcpy(copy, p, static_cast<size_t>(n) * 2);
  return LoadF16(copy);
}
LANES_INLINE F32x16 LoadBf16Partial(const uint16_t* p, int64_t n) {
  uint16_t copy[16] = {};
  __builtin_memcpy(copy, p, static_cast<size_t>(n) * 2);
  return LoadBf16(copy);
}

}  // namespace
}  // namespace ringside::cpu::RINGSIDE_LANES
