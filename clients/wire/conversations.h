// Conversations over HTTP: create, list, read, delete, and the outcome of a finished response. Blocking; each function
// fails with the server's own sentence.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "clients/wire/client_event.h"
#include "clients/wire/http_client.h"
#include "clients/wire/server_event.h"

namespace ringside::client {

struct ConversationSummary {
  std::string id;
  std::map<std::string, std::string> metadata;
  std::optional<std::string> instructions;  // its system message, where the server tells it: of one, not in a list
  std::string json;                         // all of it, as the server gave it
  int64_t created_at = 0, updated_at = 0;   // seconds since 1970; 0 = not told
  int64_t messages = -1, tokens = -1;       // -1 = not told
  int64_t position = -1, pinned = -1, tokens_evicted = -1, memory_len = -1, session_len = -1;  // likewise
  std::string cache;            // where its cache is: "slot", "host", "disk", "new" (nowhere); "" = not told
  std::string active_response;  // of the running turn; "" = none
  std::optional<bool> durable;
  std::optional<uint64_t> epoch, seq;  // seq: of its journal's last record
  std::string chain;                   // up to there
  std::string damage;                  // why it cannot be used; "" = nothing is known to be damaged

  /// What a person knows it by; "" = none.
  std::string Title() const;
};

/// What the server found when it read a conversation's journal from end to end.
struct ConversationVerdict {
  bool ok = false;
  int64_t records = 0;
  std::string message;
};

/// The new conversation's id. `title`: what it is listed by; "" = nothing.
Outcome<std::string> CreateConversation(const HttpClient& http, const std::string& title = "");
/// Gives it another title and leaves its other metadata as they are.
Outcome<Done> SetTitle(const HttpClient& http, const std::string& id, const std::string& title);
/// Newest first, at most `limit`.
Outcome<std::vector<ConversationSummary>> ListConversations(const HttpClient& http, size_t limit);
/// Fails with http_status 404 for an unknown id.
Outcome<ConversationSummary> GetConversation(const HttpClient& http, const std::string& id);
/// All messages, oldest first.
Outcome<std::vector<InputMessage>> GetItems(const HttpClient& http, const std::string& id);
Outcome<Done> DeleteConversation(const HttpClient& http, const std::string& id);
/// The conversation as bytes that ImportConversation understands, of this or another server.
Outcome<std::string> ExportConversation(const HttpClient& http, const std::string& id);
/// The new conversation.
Outcome<ConversationSummary> ImportConversation(const HttpClient& http, const std::string& bytes);
Outcome<ConversationVerdict> VerifyConversation(const HttpClient& http, const std::string& id);
/// A response by its id; see ParseResponse.
Outcome<ServerEvent> GetResponse(const HttpClient& http, const std::string& id);

}  // namespace ringside::client
