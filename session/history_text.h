// A history as one string of bytes, so that one begins with another exactly where what was said does. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "session/turn/turn_spec.h"

namespace ringside {

/// Begins a history that is of an adapter: no other's begins like it.
void AppendAdapter(std::string_view adapter, std::string* history);
/// Adds a message to the history of a chat; `calls_at` as an Item has it.
void AppendMessage(ChatRole role, std::string_view text, int64_t calls_at, std::string* history);
/// Follows the adapter: histories with different windows share nothing.
void AppendWindow(const WindowOverrides& window, std::string* history);
/// Precedes the messages: the tools and the instructions.
void AppendHead(const std::optional<std::string>& instructions, std::string_view tools, std::string* history);
/// Adds the history that is a prompt without a template. No chat's begins like it.
void AppendTokens(std::span<const TokenId> tokens, std::string* history);
/// The history of `spec`.
std::string HistoryText(const TurnSpec& spec);
/// Its first part, which every later request of the same conversation repeats: up to the first message that is not the
/// system's.
std::string HistoryBeginning(const TurnSpec& spec);

}  // namespace ringside
