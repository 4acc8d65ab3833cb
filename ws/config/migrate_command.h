// The command `ringside-server migrate`: copies conversations between a store's folder and a database of several
// servers. THREAD: main.
#pragma once

#include <string>
#include <vector>

#include "base/cli/command_line.h"

namespace ringside {

/// `args`: the arguments after "migrate". Exit status 1 if a store cannot be opened or a session was not copied.
CommandOutcome RunMigrateCommand(const std::vector<std::string>& args);
/// As DescribeCommand.
std::string DescribeMigrateCommand();

}  // namespace ringside
