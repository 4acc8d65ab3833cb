// The conversations of a server as a person looks at them, and the one to go on with.
#pragma once

#include <string>
#include <vector>

#include "clients/wire/conversations.h"

namespace ringside::client {

/// A numbered line for each; `current` is marked.
std::string DescribeSessions(const std::vector<ConversationSummary>& sessions, const std::string& current);
/// The conversation used last from here if the server still has it, else the server's newest; fails if there is none.
Outcome<std::string> FindLastConversation(const HttpClient& http);
/// The name of the model that the server serves.
Outcome<std::string> ModelName(const HttpClient& http);

}  // namespace ringside::client
