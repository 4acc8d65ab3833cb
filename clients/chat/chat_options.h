// What the user asked of a chat, on the command line or by environment. A plain value.
#pragma once

#include <optional>
#include <string>

#include "clients/chat/settings.h"
#include "clients/terminal/screen.h"

namespace ringside::client {

struct ChatOptions {
  std::string session = {};  // go on with this conversation; "" = a new one
  bool continue_last = false;
  std::optional<std::string> system = {};
  Settings settings = {};
  ColourMode colour = ColourMode::kAuto;
  bool stats = false;
  bool plain = false;                  // show answers as they are written, not as Markdown
  std::optional<bool> show_thinking = {};  // absent: on a terminal
  std::optional<bool> ephemeral = {};  // delete the conversation in the end; absent: a new one of a pipe
  bool history = true;
  std::string command = {};  // how the user started this, from RINGSIDE_CHAT_COMMAND; "" = as ringside chat
  std::string prompt = {};   // the words behind the options, joined by blanks
};

}  // namespace ringside::client
