// `ringside-server convert` (also `ringside convert`): converts a model's files to another format.
// THREAD: main.
#pragma once

#include <string>
#include <vector>

#include "ws/access/command_line.h"

namespace ringside {

/// `args`: the arguments after "convert". Exit status 1 if Convert (engine/convert/convert.h) fails.
CommandOutcome RunConvertCommand(const std::vector<std::string>& args);

/// As DescribeCommand.
std::string DescribeConvertCommand();

}  // namespace ringside
