// What the program tells of its command line: to a person with --help, and to the tool that makes the manual page and
// the shells' completions. Both from the table of settings. Pure functions.
#pragma once

#include <string>

namespace ringside {

/// Lines of at most 100 columns.
std::string HelpText();
/// All of it as JSON: options with their flags, value, help and group; examples, exit codes, and `keys` with its verbs.
std::string DescribeCommandLine();

}  // namespace ringside
