// A conversation as a file: Markdown for people, JSON for programs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "clients/wire/conversations.h"

namespace ringside::client {

/// Both start with the system message.
std::string TranscriptMarkdown(const ConversationSummary& conversation, const std::vector<InputMessage>& items);
/// {id, title, created_at, messages: [{role, content, complete, reasoning, images}]}; the last two if there are any.
std::string TranscriptJson(const ConversationSummary& conversation, const std::vector<InputMessage>& items);
/// Writes a new file ("~/" is the home folder). Fails if it exists or cannot be written.
Outcome<Done> WriteNewFile(const std::string& path, const std::string& text);
/// Title of a conversation with this first message: its first words.
std::string TitleOf(std::string_view message);
/// A message's text for the screen, after the number of its images.
std::string WithImageCount(const InputMessage& message);
/// The beginning of a text as one short line.
std::string FirstLine(std::string_view text);

}  // namespace ringside::client
