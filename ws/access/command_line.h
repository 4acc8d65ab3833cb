// What the commands of ringside-server share (`keys`, `convert`): what comes of them, and how they tell of themselves.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace ringside {

/// What the process is to print and to end with: 0; 1 if something failed; 2 for a command that cannot be read.
struct CommandOutcome {
  int exit_code = 0;
  std::string to_stdout, to_stderr;
};
inline constexpr int kCommandFailed = 1, kBadCommand = 2;

/// Reads `args`, in their order, into what the command's options are bound to. An outcome where there is nothing more
/// to do: help was asked for, or they cannot be read.
std::optional<CommandOutcome> ParseCommand(CLI::App& app, const std::vector<std::string>& args);

/// The command with its verbs, as JSON of the shape that DescribeCommandLine (ws/config/config_help.h) has.
std::string DescribeCommand(const CLI::App& app);

}  // namespace ringside
