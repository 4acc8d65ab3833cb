// A history as one string of bytes, so that one begins with another exactly where what was said does. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "session/turn_spec.h"

namespace ringside {

/// Adds a message to the history of a chat; `calls_at` as an Item has it.
void AppendMessage(ChatRole role, std::string_view text, int64_t calls_at, std::string* history);
/// Begins the history of a chat with the tools that are told.
void AppendTools(std::string_view lines, std::string* history);
/// The history that is a prompt without a template. No chat's begins like it.
std::string HistoryText(std::span<const TokenId> tokens);
/// What `spec` carries.
std::string HistoryText(const TurnSpec& spec);

}  // namespace ringside
