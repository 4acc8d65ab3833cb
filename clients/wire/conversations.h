// Conversations over HTTP: create, list, read, delete, and the outcome of a finished response. Blocking; each function
// fails with the server's own sentence.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "clients/wire/client_event.h"
#include "clients/wire/http_client.h"
#include "clients/wire/server_event.h"

namespace ringside::client {

struct ConversationSummary {
  std::string id;
  int64_t created_at = 0;              // seconds since 1970
  int64_t messages = -1, tokens = -1;  // -1 = not told
};

/// The new conversation's id. `items` are its first messages, not answered yet.
Outcome<std::string> CreateConversation(const HttpClient& http, const std::vector<InputMessage>& items = {});
/// Newest first, at most `limit`.
Outcome<std::vector<ConversationSummary>> ListConversations(const HttpClient& http, size_t limit);
/// Fails with http_status 404 for an unknown id.
Outcome<ConversationSummary> GetConversation(const HttpClient& http, const std::string& id);
/// All messages, oldest first.
Outcome<std::vector<InputMessage>> GetItems(const HttpClient& http, const std::string& id);
Outcome<Done> DeleteConversation(const HttpClient& http, const std::string& id);
/// A response by its id; see ParseResponse.
Outcome<ServerEvent> GetResponse(const HttpClient& http, const std::string& id);

}  // namespace ringside::client
