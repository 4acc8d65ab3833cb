// A server process other than the first: it runs ranks of the model and has neither sockets nor a store.
#pragma once

#include <optional>

#include "kernels/ranks/processes.h"
#include "ws/app/app_deadline.h"
#include "ws/app/app_signals.h"
#include "ws/config/config.h"

namespace ringside {

/// Serves the first process until that ends; returns the exit status. Only the first process reacts to stop signals.
/// `deadline` applies from the end of the work.
int FollowFirst(const ServerConfig& config, SignalWatcher& signals, Processes& processes,
                std::optional<StopDeadline>& deadline);

}  // namespace ringside
