// Two sets of sizes for the kernels that want much shared memory. Which one a kernel has is settled when it is
// compiled, by the architecture it is compiled for; the host asks the loaded code (launch.h: LoadedArchitecture),
// because a driver may compile the code of an older architecture for the device it has.
#pragma once

#include <cstddef>

namespace ringside::cuda {

/// The large set takes 227 KiB of shared memory a block and joins blocks as clusters: compute capabilities 9.0 to 11.0
/// (an architecture of 900 is 9.0). The small one takes 99 KiB and knows no clusters: 8.0 to 8.9, 12.0.
constexpr bool IsLargeSet(int architecture) { return architecture >= 900 && architecture < 1200; }
constexpr size_t SharedBytes(bool large) { return size_t{large ? 227u : 99u} << 10; }

/// The set of the code around it: of meaning within a kernel only.
#ifdef __CUDA_ARCH__
constexpr bool kLargeSet = IsLargeSet(__CUDA_ARCH__);
#else
constexpr bool kLargeSet = false;
#endif

}  // namespace ringside::cuda
