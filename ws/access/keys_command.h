// `ringside-server keys` (also `ringside keys`): creates, lists, revokes and rotates keys in a keys file, even while a
// server uses it.
// THREAD: main.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/cli/command_line.h"
#include "base/clock.h"

namespace ringside {

/// `args`: the arguments after "keys". The variable RINGSIDE_KEYS_FILE is the default of --file. The file is changed
/// under a lock (PATH.lock), replaced atomically, and keeps its owner. Exit status 1 if the file is unusable or lacks
/// the requested key or owner.
CommandOutcome RunKeysCommand(const std::vector<std::string>& args,
                              const std::map<std::string, std::string>& environment,
                              const Clock& clock = SystemClock::Instance());

/// As DescribeCommand.
std::string DescribeKeysCommand();

}  // namespace ringside
