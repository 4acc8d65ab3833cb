// Encodes a history as a byte string, such that one string is a prefix of another exactly if the histories are. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "session/turn/turn_spec.h"

namespace ringside {

/// Starts the history of an adapter; histories of different adapters share no prefix.
void AppendAdapter(std::string_view adapter, std::string* history);
/// Appends a chat message; `calls_at` as in Item.
void AppendMessage(ChatRole role, std::string_view text, int64_t calls_at, std::string* history);
/// Appended after a message: its images. A message without images appends nothing.
void AppendImages(std::span<const ItemImage> images, std::string* history);
/// Appended before the adapter in a server with several models.
void AppendModel(std::string_view model, std::string* history);

/// Appended after the adapter: histories with different windows share no prefix.
void AppendWindow(const WindowOverrides& window, std::string* history);
/// Appended before the messages: tools and instructions.
void AppendHead(const std::optional<std::string>& instructions, std::string_view tools, std::string* history);
/// Appends a prompt without a template. No chat history shares a prefix with it.
void AppendTokens(std::span<const TokenId> tokens, std::string* history);
/// Encodes the history of `spec`.
std::string HistoryText(const TurnSpec& spec);
/// The part that every later request of the same conversation repeats: up to the first message that is not the
/// system's.
std::string HistoryPrefix(const TurnSpec& spec);

}  // namespace ringside
