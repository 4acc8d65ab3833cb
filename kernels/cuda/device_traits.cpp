#include "kernels/cuda/device_traits.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "kernels/cuda/kernel_config.h"

namespace ringside::cuda {
namespace {

struct Typical {
  std::string_view capability;
  int architecture, multiprocessors;
};
constexpr Typical kTypical[] = {
    {"8.0", 800, 108},    // A100
    {"8.6", 860, 84},     // A40
    {"8.9", 890, 142},    // L40S
    {"9.0", 900, 132},    // H100, H200
    {"10.0", 1000, 148},  // B200
    {"12.0", 1200, 188},  // RTX PRO 6000
};

}  // namespace

Result<DeviceTraits> TypicalDevice(std::string_view capability) {
  const auto* row = std::ranges::find(kTypical, capability, &Typical::capability);
  if (row == std::end(kTypical)) {
    std::string known;
    for (const Typical& one : kTypical) known += fmt::format("{}{}", known.empty() ? "" : ", ", one.capability);
    return InvalidArgument(fmt::format("compute capability {}: known are {}", capability, known));
  }
  DeviceTraits out{.multiprocessors = row->multiprocessors,
                   .largest_cluster = row->architecture >= 900 ? kMaxClusterBlocks : 1,
                   .large = HasLargeConfig(row->architecture),
                   .hopper = row->architecture == 900,
                   .wgmma = row->architecture == 900};
  for (int size = 1; size <= out.largest_cluster; ++size) {
    out.clusters[static_cast<size_t>(size)] = out.multiprocessors / size;
  }
  return out;
}

}  // namespace ringside::cuda
