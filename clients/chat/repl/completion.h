// Tab completion in the chat: commands, settings, conversations, file names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ringside::client {

/// The full lines that complete `line`. `conversations`: the last numbered ids. Reads a directory if the command takes
/// a file.
std::vector<std::string> CompleteLine(std::string_view line, const std::vector<std::string>& conversations);

}  // namespace ringside::client
