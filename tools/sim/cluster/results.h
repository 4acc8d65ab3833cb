// The recorded results of the scenarios, tools/sim/cluster/results.json, from which scripts/scaling.py makes the tables
// of docs/SCALING.md. THREAD: any.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/sim/cluster/report.h"
#include "tools/sim/cluster/scenarios.h"

namespace ringside {

/// One result: name, servers, conversations per server, and the figures of each phase.
nlohmann::ordered_json ResultOf(const Scenario& scenario, const ClusterReport& report);

/// Path of the recorded results: an object with an array of results for each group.
std::string ResultsFile();

}  // namespace ringside
