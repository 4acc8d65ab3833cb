// Assigns GPUs to the processes of one server: one per rank, none shared.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "kernels/ranks/processes.h"

namespace ringside {

/// Names of the GPUs visible to this process, in order, as in nvidia-smi ("GPU-" and a UUID).
std::vector<std::string> CudaDeviceIds();

/// The first of the `ranks` GPUs that a process uses, counted among its visible ones. Each process uses the GPUs after
/// those of the preceding processes on its machine, from `first` on. A process that sees no more GPUs than it needs
/// uses them all: the launcher (Slurm, CUDA_VISIBLE_DEVICES) has chosen for it.
int FirstDeviceOf(int first, int ranks, int visible, int number_on_machine);

/// FirstDeviceOf for this process, verified against all other processes over a group of this channel.
/// ERRORS: kInvalidArgument, in all processes, if one sees too few GPUs or two would share one.
Result<int> AssignDevices(Processes& processes, int channel, int first, int ranks);

}  // namespace ringside
