// The conversations of a server as a person looks at them, and the one to go on with.
#pragma once

#include <string>
#include <vector>

#include "clients/wire/conversations.h"

namespace ringside::client {

/// Local time to the minute; "" for 0.
std::string LocalTime(int64_t seconds);
/// "in a slot of the engine", from a conversation's `cache`.
std::string DescribeCache(const std::string& cache);
/// A few lines about one: sizes, times, where it is kept.
std::string DescribeSession(const ConversationSummary& session);
/// A numbered line for each, and its title on the next; `current` is marked.
std::string DescribeSessions(const std::vector<ConversationSummary>& sessions, const std::string& current);
/// The id of the conversation that a person names: by its id, or by its number in the list shown last (where none was
/// shown, in the server's own). Fails with a sentence.
Outcome<std::string> FindConversation(const HttpClient& http, const std::string& name);
/// The conversation used last from here if the server still has it, else the server's newest; fails if there is none.
Outcome<std::string> FindLastConversation(const HttpClient& http);

}  // namespace ringside::client
