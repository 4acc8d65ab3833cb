// A history as one string of bytes, so that one begins with another exactly where what was said does. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "session/turn_spec.h"

namespace ringside {

/// Adds a message to the history of a chat.
void AppendMessage(ChatRole role, std::string_view text, std::string* history);
/// The history that is a prompt without a template. No chat's begins like it.
std::string HistoryText(std::span<const TokenId> tokens);
/// What `spec` carries.
std::string HistoryText(const TurnSpec& spec);

}  // namespace ringside
