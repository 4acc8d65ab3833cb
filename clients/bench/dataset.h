// Recorded conversations as a workload: their user messages, turn by turn. Read once, then immutable.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "clients/wire/outcome.h"

namespace ringside::client {

using Dataset = std::vector<std::vector<std::string>>;  // per conversation, its user messages; none is empty

/// Reads ShareGPT's format, [{"conversations": [{"from": "human", "value": ...}, ...]}], and [{"messages": [{"role":
/// "user", "content": ...}]}]. Skips conversations without a user message. Fails if none is left.
Outcome<Dataset> ParseDataset(std::string_view json);
Outcome<Dataset> ReadDataset(const std::string& path);

}  // namespace ringside::client
