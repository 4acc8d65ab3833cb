// Makes the backends of the ranks of a network in this process.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/backend.h"

namespace ringside {

/// Makes a backend; `rank` is its number in this process.
using MakeRank = std::function<Result<std::unique_ptr<Backend>>(int rank, RankComms comms)>;

/// Calls `make` for every rank, each on a separate thread, since they synchronize at start. Returns the first
/// failure, if any. A rank that does not arrive within `timeout` fails the others.
Result<std::vector<std::unique_ptr<Backend>>> MakeRanks(const RankLayout& layout, std::chrono::milliseconds timeout,
                                                        const MakeRank& make);

/// As above for the ranks of this process, if other processes have further ranks: `comms` connects them.
Result<std::vector<std::unique_ptr<Backend>>> MakeRanks(std::vector<RankComms> comms, const MakeRank& make);

/// Cores that this process may use; all CPU backends share them.
int UsableCpuCores();

}  // namespace ringside
