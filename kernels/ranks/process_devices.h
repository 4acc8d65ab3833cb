// Which GPUs the processes of one server take: each those of its ranks, none that another has.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "kernels/ranks/processes.h"

namespace ringside {

/// The names, as nvidia-smi has them ("GPU-" and a UUID), of the GPUs that this process sees, in their order.
std::vector<std::string> CudaDeviceIds();

/// The first of the `ranks` GPUs that a process takes of those that it sees, from number `first` on. Each takes those
/// behind what the processes before it on its machine take. One that sees no more than its ranks need takes them all:
/// whoever has started it (Slurm, CUDA_VISIBLE_DEVICES) has chosen for it.
int FirstDeviceOf(int first, int ranks, int visible, int number_on_machine);

/// The same for this process, once all have said which they take, by a group of this channel: kInvalidArgument, in all
/// of them, where one sees too few, or where two would share one.
Result<int> TakeDevices(Processes& processes, int channel, int first, int ranks);

}  // namespace ringside
