// A conversation as a Markdown file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "clients/wire/conversations.h"

namespace ringside::client {

std::string TranscriptMarkdown(const std::string& conversation, const std::vector<InputMessage>& items);
/// Writes it to a new file ("~/" is the home folder). Fails, with a sentence, if the file exists or cannot be written.
Outcome<Done> SaveTranscript(const std::string& path, const std::string& conversation,
                             const std::vector<InputMessage>& items);
/// The beginning of a text as one short line.
std::string FirstLine(std::string_view text);

}  // namespace ringside::client
