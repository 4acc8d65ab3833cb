// The properties of a device by which kernels are selected. Plain data without CUDA, so that a selection can be tested
// and printed for a device that this machine lacks.
#pragma once

#include <array>
#include <string_view>

#include "base/status.h"
#include "kernels/cuda/linear/linear_tuning.h"

namespace ringside::cuda {

constexpr int kMaxClusterBlocks = 8;  // blocks

struct DeviceTraits {
  int multiprocessors = 1;
  int largest_cluster = 1;
  // Number of resident clusters by cluster size, with one block per SM.
  std::array<int, kMaxClusterBlocks + 1> clusters = {};
  bool large = true;    // size configuration of the loaded kernels (kernel_config.h)
  bool hopper = false;  // compute capability 9.0, which has WGMMA and TMA
  bool wgmma = false;   // hopper, and this program contains the kernels compiled for it
  const LinearTuning* tuning = &TuningOf("");
};

/// A typical device of a compute capability such as "9.0". All its SMs are in clusters; a real one may hold fewer.
/// ERRORS: kInvalidArgument if the capability is not in the table.
Result<DeviceTraits> TypicalDevice(std::string_view capability);

}  // namespace ringside::cuda
