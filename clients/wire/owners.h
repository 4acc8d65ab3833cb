// The owners of a server's conversations, for a key with scope admin. Blocking; each function fails with the server's
// message, and http_status 404 for another key.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "clients/wire/transport/http_client.h"

namespace ringside::client {

struct OwnerSummary {
  std::string owner;  // "" for a server without keys
  int64_t conversations = 0, chains = 0, stored_bytes = 0, text_bytes = 0, turns = 0;
};

struct OwnerList {
  std::vector<OwnerSummary> owners;
  OwnerSummary totals;
  std::string json;  // the server's answer, verbatim
};

/// Parses the server's answer. Pure.
Outcome<OwnerList> ParseOwners(const std::string& body);
Outcome<OwnerList> ListOwners(const HttpClient& http);
/// Ids of an owner's conversations, newest first.
Outcome<std::vector<std::string>> ListConversationsOf(const HttpClient& http, const std::string& owner);

}  // namespace ringside::client
