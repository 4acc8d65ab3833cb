// The user's chat options, from the command line and the environment. A plain value.
#pragma once

#include <optional>
#include <string>

#include "clients/chat/settings.h"
#include "clients/terminal/screen.h"

namespace ringside::client {

struct ChatOptions {
  std::string session = {};  // continue this conversation; "" = a new one
  bool continue_last = false;
  std::optional<std::string> system = {};
  std::string model = {};  // of a new conversation; "" = the server's default
  Settings settings = {};
  ColourMode colour = ColourMode::kAuto;
  bool stats = false;
  bool plain = false;                      // show answers verbatim instead of as Markdown
  std::optional<bool> show_thinking = {};  // absent: on a terminal
  std::optional<bool> ephemeral = {};      // delete the conversation on exit; absent: if it is new and input is a pipe
  bool history = true;
  std::string command = {};  // command that started the chat, from RINGSIDE_CHAT_COMMAND; "" = ringside chat
  std::string prompt = {};   // the words after the options, joined by blanks
};

}  // namespace ringside::client
