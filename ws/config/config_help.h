// What --help prints: the table of settings in groups, with examples. A pure function.
#pragma once

#include <string>

namespace ringside {

/// Lines of at most 100 columns.
std::string HelpText();

}  // namespace ringside
