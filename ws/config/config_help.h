// Descriptions of the command line, generated from the option table: --help for people, --describe for the generators
// of the manual page and the shell completions. Pure functions.
#pragma once

#include <string>

namespace ringside {

/// Lines of at most 100 columns.
std::string HelpText();
/// JSON: options with flags, value, help and group; examples; exit codes; `keys` with its verbs.
std::string DescribeCommandLine();

}  // namespace ringside
