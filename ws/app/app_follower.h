// A process of a server that is not its first: it has ranks of the model, and neither sockets nor a store.
#pragma once

#include <optional>

#include "kernels/ranks/processes.h"
#include "ws/app/app_deadline.h"
#include "ws/app/app_signals.h"
#include "ws/config/config.h"

namespace ringside {

/// Does what the first process tells it until that ends; returns the exit status. Signals that ask to stop are the
/// first's to answer. `deadline` holds from the end of the work on.
int FollowFirst(const ServerConfig& config, SignalWatcher& signals, Processes& processes,
                std::optional<StopDeadline>& deadline);

}  // namespace ringside
