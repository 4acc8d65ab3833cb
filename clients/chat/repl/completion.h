// What Tab makes of a line in the chat: commands, settings, conversations, file names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ringside::client {

/// The whole lines that `line` may become. `conversations` are the ids as they were numbered last. Reads a folder where
/// a command takes a file.
std::vector<std::string> CompleteLine(std::string_view line, const std::vector<std::string>& conversations);

}  // namespace ringside::client
