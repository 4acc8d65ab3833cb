// The command line as JSON, from which the manual page and the shells' completions are made. A pure function.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace ringside::client {

/// Name, summary, options (flags, value, help), arguments and, of the same shape, subcommands: what `ringside
/// --describe` prints. `ringside-server --describe` has the same shape.
std::string DescribeCommandLine(const CLI::App& app);

}  // namespace ringside::client
