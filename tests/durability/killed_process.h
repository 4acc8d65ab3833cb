// A process that is started, listened to and killed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ringside {

/// From when the time to the kill counts: however slow the machine is, a process that has spoken is at work.
enum class KillAfter { kStart, kFirstWord };

/// Runs a program with these arguments (the first is its path), kills it (SIGKILL) after so many microseconds and
/// returns everything it wrote to standard output. Fails the test if it ended before by itself.
std::string RunAndKill(const std::vector<std::string>& command, KillAfter from, uint32_t microseconds);

}  // namespace ringside
