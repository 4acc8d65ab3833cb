// Starts a process, reads its output and kills it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ringside {

/// Runs a program with these arguments (the first is its path), kills it (SIGKILL) `microseconds` after it has written
/// `lines` lines to standard output, whatever the machine's speed, and returns its output. Fails the test if it exits
/// earlier.
std::string RunAndKill(const std::vector<std::string>& command, int64_t lines, uint32_t microseconds);

}  // namespace ringside
