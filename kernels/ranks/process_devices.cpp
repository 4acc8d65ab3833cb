#include "kernels/ranks/process_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"

namespace ringside {
namespace {

/// The GPUs that a process uses, in its memory layout: all processes run the same program.
struct Taken {
  static constexpr size_t kNameBytes = 48;
  int32_t first = 0, visible = 0;
  std::array<std::array<char, kNameBytes>, Processes::kMaxRanksPerProcess> names{};  // null-terminated

  std::string_view name(int rank) const { return names[static_cast<size_t>(rank)].data(); }
};

Taken Take(const Processes& processes, int first, int ranks) {
  const std::vector<std::string> devices = CudaDeviceIds();
  Taken out{.visible = static_cast<int32_t>(devices.size())};
  out.first = FirstDeviceOf(first, ranks, out.visible, processes.number_on_machine());
  for (int rank = 0; rank < ranks && out.first + rank < out.visible; ++rank) {
    auto& name = out.names[static_cast<size_t>(rank)];
    devices[static_cast<size_t>(out.first + rank)].copy(name.data(), name.size() - 1);
  }
  return out;
}

}  // namespace

int FirstDeviceOf(int first, int ranks, int visible, int number_on_machine) {
  return visible - first <= ranks ? first : first + number_on_machine * ranks;
}

Result<int> AssignDevices(Processes& processes, int channel, int first, int ranks) {
  CHECK_LE(ranks, Processes::kMaxRanksPerProcess);
  const Taken own = Take(processes, first, ranks);
  const auto comm = processes.MakeComm(channel, processes.timeout());
  std::vector<Taken> all(static_cast<size_t>(processes.count()));
  comm->AllGather(&own, sizeof(own), all.data());
  RETURN_IF_ERROR(comm->status());
  std::vector<std::pair<std::string_view, size_t>> seen;  // a GPU and the process that uses it
  for (size_t process = 0; process < all.size(); ++process) {
    const Taken& one = all[process];
    if (one.first + ranks > one.visible) {
      return InvalidArgument(fmt::format("process {} needs {} GPU{} from number {} on, but sees {}", process, ranks,
                                         ranks == 1 ? "" : "s", one.first, one.visible));
    }
    for (int rank = 0; rank < ranks; ++rank) {
      const auto other = std::ranges::find(seen, one.name(rank), [](const auto& taken) { return taken.first; });
      if (other != seen.end()) {
        return InvalidArgument(fmt::format(
            "processes {} and {} would share {}: each rank needs its own GPU (set CUDA_VISIBLE_DEVICES for each "
            "process)",
            other->second, process, one.name(rank)));
      }
      seen.emplace_back(one.name(rank), process);
    }
  }
  return own.first;
}

}  // namespace ringside
