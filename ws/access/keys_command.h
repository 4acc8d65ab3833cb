// `ringside-server keys`, which `ringside keys` is: makes, lists, revokes and rotates keys in a keys file, whether or
// not a server uses it meanwhile. Main thread only.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "ws/access/command_line.h"

namespace ringside {

/// `args` behind "keys". RINGSIDE_KEYS_FILE of the environment stands in for --file. The file is changed under a lock
/// (PATH.lock) and replaced as a whole: a reader sees it as it was or as it is to be, and it keeps its owner.
/// Ends with 1 if the file cannot be used or has not what was asked for.
CommandOutcome RunKeysCommand(const std::vector<std::string>& args,
                              const std::map<std::string, std::string>& environment,
                              const Clock& clock = SystemClock::Instance());

/// As DescribeCommand.
std::string DescribeKeysCommand();

}  // namespace ringside
