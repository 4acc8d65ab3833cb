// Shared parts of the ringside-server commands (`keys`, `convert`): their outcome and their description.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace ringside {

/// Output and exit status of the process: 0; 1 if something failed; 2 for an invalid command line.
struct CommandOutcome {
  int exit_code = 0;
  std::string to_stdout, to_stderr;
};
inline constexpr int kCommandFailed = 1, kBadCommand = 2;

/// Parses `args` into the variables bound to the command's options. Returns an outcome if nothing remains to be done:
/// help was requested, or the arguments are invalid.
std::optional<CommandOutcome> ParseCommand(CLI::App& app, const std::vector<std::string>& args);

/// The command and its verbs as JSON in the format of DescribeCommandLine (ws/config/config_help.h).
std::string DescribeCommand(const CLI::App& app);

}  // namespace ringside
