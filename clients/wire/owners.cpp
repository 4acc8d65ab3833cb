#include "clients/wire/owners.h"

#include <nlohmann/json.hpp>

#include "base/json/json_tree.h"
#include "clients/wire/json_fields.h"

namespace ringside::client {
namespace {

constexpr size_t kMostPages = 10'000;

OwnerSummary ReadOwner(const nlohmann::json& json) {
  return {.owner = Text(json, "owner"),
          .conversations = Count(json, "conversations"),
          .chains = Count(json, "chains"),
          .stored_bytes = Count(json, "stored_bytes"),
          .text_bytes = Count(json, "text_bytes"),
          .turns = Count(json, "turns")};
}

/// As in a URL's query.
std::string Encoded(const std::string& text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const unsigned char c : text) {
    const bool plain =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
    if (plain) {
      encoded += static_cast<char>(c);
    } else {
      encoded += {'%', kDigits[c >> 4], kDigits[c & 15]};
    }
  }
  return encoded;
}

}  // namespace

Outcome<OwnerList> ListOwners(const HttpClient& http) {
  const Outcome<HttpAnswer> answer = http.Request("GET", "/owners");
  if (!answer) return answer.failure();
  return ParseOwners(answer->body);
}

Outcome<OwnerList> ParseOwners(const std::string& body) {
  const nlohmann::json json = ParseJsonTree(body, kLargeJson);
  OwnerList list{.json = body};
  if (const nlohmann::json* totals = Find(json, "totals")) list.totals = ReadOwner(*totals);
  const nlohmann::json* owners = Find(json, "data");
  if (owners == nullptr || !owners->is_array()) return Failure{"The server's answer is not a list of owners."};
  for (const nlohmann::json& owner : *owners) list.owners.push_back(ReadOwner(owner));
  return list;
}

Outcome<std::vector<std::string>> ListConversationsOf(const HttpClient& http, const std::string& owner) {
  std::vector<std::string> ids;
  std::string after;
  for (size_t page = 0; page < kMostPages; ++page) {
    const Outcome<HttpAnswer> answer =
        http.Request("GET", "/owners/conversations?owner=" + Encoded(owner) + "&after=" + Encoded(after));
    if (!answer) return answer.failure();
    const nlohmann::json json = ParseJsonTree(answer->body, kLargeJson);
    const nlohmann::json* found = Find(json, "data");
    if (found == nullptr || !found->is_array()) return Failure{"The server's answer is not a list of conversations."};
    for (const nlohmann::json& one : *found) ids.push_back(Text(one, "id"));
    after = Text(json, "last_id");
    const nlohmann::json* more = Find(json, "has_more");
    if (after.empty() || more == nullptr || !more->is_boolean() || !more->get<bool>()) break;
  }
  return ids;
}

}  // namespace ringside::client
