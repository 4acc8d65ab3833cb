// Runs the programs that are installed next to this one.
// THREAD: main.
#pragma once

#include <string>
#include <vector>

namespace ringside {

/// The path of the program `name` in this program's folder; if there is none, `name`, to be searched on the PATH.
std::string SiblingProgram(const std::string& name);

/// Replaces this process with the program words[0] and its arguments. Returns only if it cannot be run, with errno.
void ExecuteWords(std::vector<std::string>& words);

/// Replaces this process with the sibling `name` and its arguments argv[1], ... Returns only if it cannot be run:
/// prints why, and returns kCommandFailed.
int RunSibling(const std::string& name, char** argv);

}  // namespace ringside
