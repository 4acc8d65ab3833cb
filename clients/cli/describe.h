// The command line as JSON, the source of the manual page and the shell completions. A pure function.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace ringside::client {

/// Name, summary, options (flags, value, help), arguments and, recursively, subcommands: the output of `ringside
/// --describe`. `ringside-server --describe` has the same schema.
std::string DescribeCommandLine(const CLI::App& app);

}  // namespace ringside::client
