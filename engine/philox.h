// Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
// 1, 2, 3" (SC 2011). A pure function of key and counter: no state to save, the same draw after a resume and in any
// batch. Any thread.
#pragma once

#include <array>
#include <cstdint>

namespace ringside {

/// The 10-round block: four 32-bit words, low word first, for a counter and a key.
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// A number in [0, 1) with 53 random bits: the first two words of the block with key = seed and counter = position.
double UniformAt(uint64_t seed, uint64_t position);

}  // namespace ringside
