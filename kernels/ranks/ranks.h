// Backends of ranks that share a network in this process.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/backend.h"

namespace ringside {

/// Makes one of them, by its number in this process.
using MakeRank = std::function<Result<std::unique_ptr<Backend>>(int rank, RankComms comms)>;

/// Calls `make` for every rank, each on a thread of its own, as they meet when they start. The first failure, if there
/// is one. A rank that does not come within `timeout` fails the others.
Result<std::vector<std::unique_ptr<Backend>>> MakeRanks(const RankLayout& layout, std::chrono::milliseconds timeout,
                                                        const MakeRank& make);

/// The same for the ranks of this process, where others may have more of the network: whom each talks to.
Result<std::vector<std::unique_ptr<Backend>>> MakeRanks(std::vector<RankComms> comms, const MakeRank& make);

/// That this process may use: all backends on the CPU share them.
int UsableCpuCores();

}  // namespace ringside
