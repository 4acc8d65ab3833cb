// Discrete-event simulation of many servers behind a proxy: turns, pauses, caches in slots, host memory and on disk,
// databases shared by cells of servers, admission control, and servers, zones and databases that fail and return. A
// cost model gives step times. Each server is a few numbers, not the real engine (see simulation.h for that): a queue
// for prompts, one for its disk, and lists of caches. The same seed gives the same figures. THREAD: one.
#pragma once

#include "tools/sim/cluster/cluster_options.h"
#include "tools/sim/cluster/report.h"
#include "tools/sim/cost_model.h"

namespace ringside {

ClusterReport SimulateCluster(const CostModel& cost, const ClusterOptions& options);

}  // namespace ringside
