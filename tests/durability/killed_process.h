// A process that is started, listened to and killed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ringside {

/// Runs a program with these arguments (the first is its path), kills it (SIGKILL) so many microseconds after it has
/// written `lines` lines to standard output, however slow the machine is, and returns everything that it wrote there.
/// Fails the test if it ended before by itself.
std::string RunAndKill(const std::vector<std::string>& command, int64_t lines, uint32_t microseconds);

}  // namespace ringside
