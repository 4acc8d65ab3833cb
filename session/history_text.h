// A history as one string of bytes, so that one begins with another exactly where what was said does. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "session/turn/turn_spec.h"

namespace ringside {

/// Begins a history that is of an adapter: no other's begins like it.
void AppendAdapter(std::string_view adapter, std::string* history);
/// Adds a message to the history of a chat; `calls_at` as an Item has it.
void AppendMessage(ChatRole role, std::string_view text, int64_t calls_at, std::string* history);
/// Goes on with the tools that are told, before the messages.
void AppendTools(std::string_view lines, std::string* history);
/// Adds the history that is a prompt without a template. No chat's begins like it.
void AppendTokens(std::span<const TokenId> tokens, std::string* history);
/// What `spec` carries.
std::string HistoryText(const TurnSpec& spec);

}  // namespace ringside
