// The simulated scenarios of docs/SCALING.md, in groups: one table each. THREAD: any.
#pragma once

#include <string>
#include <vector>

#include "tools/sim/cluster/cluster_options.h"

namespace ringside {

struct Scenario {
  std::string group, name;
  ClusterOptions options;
};

/// All scenarios, in the order of the page. 96 servers in 6 cells unless the name has another number.
std::vector<Scenario> Scenarios();

}  // namespace ringside
