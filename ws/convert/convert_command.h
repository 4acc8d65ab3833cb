// `ringside-server convert`, which `ringside convert` is: writes a model's files in another format. Main thread only.
#pragma once

#include <string>
#include <vector>

#include "ws/access/command_line.h"

namespace ringside {

/// `args` behind "convert". Ends with 1 where Convert (engine/convert/convert.h) fails.
CommandOutcome RunConvertCommand(const std::vector<std::string>& args);

/// As DescribeCommand.
std::string DescribeConvertCommand();

}  // namespace ringside
