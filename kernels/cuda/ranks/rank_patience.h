// How long a rank waits for another, and where it says that it waits no more. Plain data, passed to kernels.
#pragma once

#include <cstdint>

namespace ringside::cuda {

struct RankPatience {
  uint32_t* lost = nullptr;          // own: a rank has not come, and none is waited for any more
  uint32_t* lost_on_host = nullptr;  // the same in pinned host memory; the host sets it where it knows first
  uint64_t ns = 0;
};

}  // namespace ringside::cuda
