// The command line of ringside-convert (also `ringside convert`): converts a model's files to another format.
// THREAD: main.
#pragma once

#include <string>
#include <vector>

#include "base/cli/command_line.h"

namespace ringside {

/// Exit status 1 if Convert (engine/convert/convert.h) fails.
CommandOutcome RunConvertCommand(const std::vector<std::string>& args);

}  // namespace ringside
