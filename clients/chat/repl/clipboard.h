// Copies text to the user's clipboard: through a program of the desktop or tmux where one is present, and through the
// terminal (OSC 52), which also works over ssh. THREAD: main.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "clients/terminal/terminal.h"
#include "clients/wire/client_event.h"

namespace ringside::client {

/// Longest text for the terminal: xterm cuts longer sequences.
inline constexpr size_t kMostTerminalCopyBytes = 74'000;

/// The escape sequence that asks the terminal to copy the text.
std::string CopySequence(std::string_view text);
/// The command of the desktop's clipboard program, for the shell; "" if the environment names no desktop.
std::string ClipboardCommand();
/// Feeds `text` to a shell command. Returns true if the command succeeded.
bool FeedCommand(const std::string& command, std::string_view text);

/// Copies the last answer. Returns a sentence for the user. `escapes`: the terminal supports escape sequences.
std::string CopyAnswer(const std::vector<InputMessage>& items, Terminal& terminal, bool escapes);

}  // namespace ringside::client
