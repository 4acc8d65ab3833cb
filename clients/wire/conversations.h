// Conversations over HTTP: create, list, read, delete, and fetch a finished response. Blocking; each function fails
// with the server's message.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "clients/wire/client_event.h"
#include "clients/wire/server_event.h"
#include "clients/wire/transport/http_client.h"

namespace ringside::client {

struct ConversationSummary {
  std::string id;
  std::map<std::string, std::string> metadata;
  std::optional<std::string> instructions;  // system message; absent in lists, and if the server does not send it
  std::string json;                         // the server's object, verbatim
  int64_t created_at = 0, updated_at = 0;   // seconds since 1970; 0 = unknown
  int64_t messages = -1, tokens = -1;       // -1 = unknown
  int64_t position = -1, pinned = -1, tokens_evicted = -1, memory_len = -1, session_len = -1;  // -1 = unknown
  std::string cache;            // location of its cache: "slot", "host", "disk", "new" (nowhere); "" = unknown
  std::string active_response;  // id of the running turn; "" = none
  std::optional<bool> durable;
  std::optional<uint64_t> epoch, seq;  // seq: of the last journal record
  std::string chain;                   // hash chain up to seq
  std::string damage;                  // why it is unusable; "" = no known damage

  /// The title shown to people; "" = none.
  std::string Title() const;
};

/// Result of reading a conversation's journal from end to end.
struct ConversationVerdict {
  bool ok = false;
  int64_t records = 0;
  std::string message;
};

/// Returns the new conversation's id. `title`: its title in lists; "" = none.
Outcome<std::string> CreateConversation(const HttpClient& http, const std::string& title = "");
/// Changes the title and keeps all other metadata.
Outcome<Done> SetTitle(const HttpClient& http, const std::string& id, const std::string& title);
/// Newest first, at most `limit`.
Outcome<std::vector<ConversationSummary>> ListConversations(const HttpClient& http, size_t limit);
/// Fails with http_status 404 for an unknown id.
Outcome<ConversationSummary> GetConversation(const HttpClient& http, const std::string& id);
/// All messages, oldest first.
Outcome<std::vector<InputMessage>> GetItems(const HttpClient& http, const std::string& id);
Outcome<Done> DeleteConversation(const HttpClient& http, const std::string& id);
/// The conversation as bytes for ImportConversation, on this or another server.
Outcome<std::string> ExportConversation(const HttpClient& http, const std::string& id);
/// Returns the new conversation.
Outcome<ConversationSummary> ImportConversation(const HttpClient& http, const std::string& bytes);
Outcome<ConversationVerdict> VerifyConversation(const HttpClient& http, const std::string& id);
/// Fetches a response by its id; see ParseResponse.
Outcome<ServerEvent> GetResponse(const HttpClient& http, const std::string& id);

}  // namespace ringside::client
