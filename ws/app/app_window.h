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

/// On the CPU: bounds the caches of `options` by the memory of this machine, where the operator has set neither a
/// window nor their memory. ERRORS: kInvalidArgument, naming the setting, for more than the machine has.
Status FitMachine(const ServerConfig& config, const Model& model, const Processes& processes, EngineOptions* options);
/// The window that all engines have: they start one after another, each with the one before it as its limit.
int64_t WindowOf(EngineFleet& engines);
/// The log line with its length and the reason for it (WindowFacts).
std::string DescribeWindow(const ServerConfig& config, const ModelSpec& spec, EngineFleet& engines);

}  // namespace ringside
