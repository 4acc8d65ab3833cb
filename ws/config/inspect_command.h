// The command `ringside-server inspect`: whether models load, and their needs, from their files' headers. Loads no
// weights and opens no port. THREAD: main.
#pragma once

#include <string>
#include <vector>

#include "base/cli/command_line.h"

namespace ringside {

/// Prints one line of JSON per path. A model that does not load is no failure: its line has the sentence with which the
/// server would refuse it.
CommandOutcome RunInspectCommand(const std::vector<std::string>& args);
/// As DescribeCommand.
std::string DescribeInspectCommand();

}  // namespace ringside
