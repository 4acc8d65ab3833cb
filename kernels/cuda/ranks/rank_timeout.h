// Timeout of a rank's waits for other ranks, and the flag that it has given up. Plain data, passed to kernels.
#pragma once

#include <cstdint>

namespace ringside::cuda {

struct RankTimeout {
  uint32_t* lost = nullptr;          // own: a rank has timed out; later waits return at once
  uint32_t* lost_on_host = nullptr;  // the same flag in pinned host memory, set by the host if it knows first
  uint64_t ns = 0;
};

}  // namespace ringside::cuda
