// Recorded conversations as a workload: what their users said, turn by turn. Read once, then immutable.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "clients/wire/outcome.h"

namespace ringside::client {

using Dataset = std::vector<std::vector<std::string>>;  // of each conversation, its user's messages; none is empty

/// Reads ShareGPT's shape, [{"conversations": [{"from": "human", "value": ...}, ...]}], and [{"messages": [{"role":
/// "user", "content": ...}]}]. Conversations in which no user speaks are left out. Fails with a sentence if nothing is
/// left.
Outcome<Dataset> ParseDataset(std::string_view json);
Outcome<Dataset> ReadDataset(const std::string& path);

}  // namespace ringside::client
