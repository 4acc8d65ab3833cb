// Shared parts of the programs' command lines: the outcome of a command, and its description, the source of manual
// pages and shell completions. Pure functions. THREAD: any.
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

/// Prints the outcome. Returns its exit status.
int PrintOutcome(const CommandOutcome& outcome);

/// Parses `args` into the variables bound to the command's options. Returns an outcome if nothing remains to be done:
/// help was requested, or the arguments are invalid.
std::optional<CommandOutcome> ParseCommand(CLI::App& app, const std::vector<std::string>& args);

/// Name, summary, options (flags, value, help), arguments and, recursively, subcommands, as JSON.
std::string DescribeCommand(const CLI::App& app);
/// As DescribeCommand, with the program's version: the output of --describe.
std::string DescribeProgram(const CLI::App& app, const std::string& version);

}  // namespace ringside
