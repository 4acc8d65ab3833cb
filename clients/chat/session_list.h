// A server's conversations formatted for people, and selection of one by name.
#pragma once

#include <string>
#include <vector>

#include "clients/wire/conversations.h"

namespace ringside::client {

/// Local time to the minute; "" for 0.
std::string LocalTime(int64_t seconds);
/// "in a slot of the engine", from a conversation's `cache`.
std::string DescribeCache(const std::string& cache);
/// A few lines about one conversation: sizes, times, location of the cache.
std::string DescribeSession(const ConversationSummary& session);
/// A numbered line per conversation, followed by its title; `current` is marked.
std::string DescribeSessions(const std::vector<ConversationSummary>& sessions, const std::string& current);
/// Resolves a user's reference to a conversation: an id, or a number of the last shown list (or of the server's list if
/// none was shown). Fails with a message for the user.
Outcome<std::string> FindConversation(const HttpClient& http, const std::string& name);
/// The conversation used last by this client if the server still has it, else the server's newest; fails if there is
/// none.
Outcome<std::string> FindLastConversation(const HttpClient& http);

}  // namespace ringside::client
