// The default window of a server, and the log line that describes it.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "engine/engine_options.h"
#include "engine/fleet/engine_fleet.h"
#include "engine/model/model.h"
#include "kernels/ranks/processes.h"
#include "ws/config/config.h"

namespace ringside {

/// On the CPU: bounds the caches of `options` by this machine's memory unless the operator has set the window or the
/// cache memory.
/// ERRORS: kInvalidArgument, naming the setting, if it exceeds the machine's memory.
Status FitMachine(const ServerConfig& config, const Model& model, const Processes& processes, EngineOptions* options);
/// The window common to all engines. Engines start in turn, each limited by the previous one's window.
int64_t WindowOf(EngineFleet& engines);
/// The log line with the window's length and the reason for it (WindowFacts).
std::string DescribeWindow(const ServerConfig& config, const ModelSpec& spec, EngineFleet& engines);

}  // namespace ringside
