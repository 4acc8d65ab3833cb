// Two size configurations for kernels that need much shared memory. A kernel's configuration is fixed at compile time
// by its target architecture. The host queries the loaded code (launch.h: LoadedCodeArchitecture) rather than the
// device, because the driver may JIT-compile PTX of an older architecture.
#pragma once

#include <cstddef>

namespace ringside::cuda {

/// The large configuration uses 227 KiB of shared memory per block and thread block clusters: compute capabilities 9.0
/// to 11.0 (architecture 900 is 9.0). The small one uses 99 KiB and no clusters: 8.0 to 8.9 and 12.0.
constexpr bool HasLargeConfig(int architecture) { return architecture >= 900 && architecture < 1200; }
constexpr size_t SharedBytes(bool large) { return size_t{large ? 227u : 99u} << 10; }

constexpr int kBlockThreads = 256;  // threads of most kernels that reduce over a block

/// The configuration of the code being compiled; meaningful in device code only.
#ifdef __CUDA_ARCH__
constexpr bool kLargeConfig = HasLargeConfig(__CUDA_ARCH__);
#else
constexpr bool kLargeConfig = false;
#endif

}  // namespace ringside::cuda
