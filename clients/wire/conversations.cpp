#include "clients/wire/conversations.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json/json_tree.h"
#include "clients/wire/json_fields.h"

namespace ringside::client {
namespace {

using Json = nlohmann::json;

constexpr size_t kPageItems = 100;
constexpr const char* kTitle = "title";  // metadata key of the title, shared with the page

Failure Unreadable() { return Failure{"This client does not understand the server's answer."}; }

Outcome<Json> Ask(const HttpClient& http, const std::string& method, const std::string& path,
                  const std::string& body = "") {
  const Outcome<HttpAnswer> answer = http.Request(method, path, body);
  if (!answer) return answer.failure();
  Json json = ParseJsonTree(answer->body, kLargeJson);
  if (!json.is_object()) return Unreadable();
  return json;
}

int64_t Integer(const Json& json, const char* name, int64_t otherwise) {
  const auto it = json.find(name);
  return it != json.end() && it->is_number() ? it->get<int64_t>() : otherwise;
}

ConversationSummary Summary(const Json& json) {
  ConversationSummary summary;
  summary.id = Text(json, "id");
  summary.json = json.dump(2, ' ', false, Json::error_handler_t::replace);
  if (json.contains("metadata") && json["metadata"].is_object()) {
    for (const auto& [name, value] : json["metadata"].items()) {
      if (value.is_string()) summary.metadata[name] = value.get<std::string>();
    }
  }
  summary.created_at = Integer(json, "created_at", 0);
  if (json.contains("ringside") && json["ringside"].is_object()) {
    const Json& ours = json["ringside"];
    summary.messages = Integer(ours, "messages", Integer(ours, "items", -1));
    summary.updated_at = Integer(ours, "updated_at", 0);
    summary.tokens = Integer(ours, "tokens", -1);
    summary.position = Integer(ours, "position", -1);
    summary.pinned = Integer(ours, "pinned", -1);
    summary.tokens_evicted = Integer(ours, "tokens_evicted", -1);
    summary.memory_len = Integer(ours, "memory_len", -1);
    summary.session_len = Integer(ours, "session_len", -1);
    summary.cache = Text(ours, "cache");
    summary.active_response = Text(ours, "active_response_id");
    if (ours.contains("durable") && ours["durable"].is_boolean()) summary.durable = ours["durable"].get<bool>();
    if (ours.contains("epoch") && ours["epoch"].is_number_unsigned()) summary.epoch = ours["epoch"].get<uint64_t>();
    if (ours.contains("seq") && ours["seq"].is_number_unsigned()) summary.seq = ours["seq"].get<uint64_t>();
    summary.chain = Text(ours, "chain");
    summary.damage = Text(ours, "damaged");
    if (ours.contains("instructions") && ours["instructions"].is_string()) {
      summary.instructions = ours["instructions"].get<std::string>();
    }
  }
  return summary;
}

InputMessage Message(const Json& item) {
  InputMessage message;
  message.role = Text(item, "role");
  message.complete = Text(item, "status") != "incomplete";
  const std::string type = Text(item, "type");
  if (type == "function_call") {
    message.role = "assistant";
    message.text = "[calls " + Text(item, "name") + ' ' + Text(item, "arguments") + ']';
    return message;
  }
  if (type == "function_call_output") {
    message.role = "tool";
    message.text = Text(item, "output");
    return message;
  }
  if (type == "reasoning") {
    message.role = "assistant";
    for (const char* list : {"summary", "content"}) {
      if (!item.contains(list) || !item[list].is_array()) continue;
      for (const Json& part : item[list]) {
        if (part.is_object()) message.reasoning += Text(part, "text");
      }
    }
    return message;
  }
  if (!item.contains("content")) return message;
  const Json& content = item["content"];
  if (content.is_string()) message.text = content.get<std::string>();
  if (content.is_array()) {
    for (const Json& part : content) {
      if (!part.is_object()) continue;
      message.text += Text(part, "text");
      if (Text(part, "type") == "input_image") message.images.push_back(Text(part, "image_url"));
    }
  }
  return message;
}

/// Id of the item that a reasoning or tool-call item belongs to: the server counts them as one.
std::string WholeOf(const std::string& id) {
  if (id.starts_with("rs_")) return "msg_" + id.substr(3);
  return id.starts_with("fc_") ? "msg_" + id.substr(3, id.rfind('_') - 3) : id;
}

/// All elements of a paged list, up to `limit`.
Outcome<std::vector<Json>> AskPages(const HttpClient& http, const std::string& path, const std::string& query,
                                    size_t limit) {
  std::vector<Json> all;
  std::string after;
  while (all.size() < limit) {
    const size_t page = std::min(kPageItems, limit - all.size());
    std::string target = path + "?limit=" + std::to_string(page) + query;
    if (!after.empty()) target += "&after=" + after;
    Outcome<Json> json = Ask(http, "GET", target);
    if (!json) return json.failure();
    if (!json->contains("data") || !(*json)["data"].is_array()) return Unreadable();
    Json& data = (*json)["data"];
    for (Json& element : data) {
      if (element.is_object()) all.push_back(std::move(element));
    }
    const bool has_more = json->contains("has_more") && (*json)["has_more"] == true;
    if (!has_more || data.empty() || all.empty()) break;
    const std::string last = Text(all.back(), "id");
    if (last.empty() || last == after) break;
    after = last;
  }
  return all;
}

}  // namespace

std::string ConversationSummary::Title() const {
  const auto title = metadata.find(kTitle);
  return title != metadata.end() ? title->second : "";
}

Outcome<std::string> CreateConversation(const HttpClient& http, const std::string& title) {
  Json body = Json::object();
  if (!title.empty()) body["metadata"][kTitle] = title;
  const Outcome<Json> json = Ask(http, "POST", "/conversations", Dump(body));
  if (!json) return json.failure();
  std::string id = Text(*json, "id");
  if (id.empty()) return Unreadable();
  return id;
}

Outcome<std::vector<ConversationSummary>> ListConversations(const HttpClient& http, size_t limit) {
  const Outcome<std::vector<Json>> pages = AskPages(http, "/conversations", "", limit);
  if (!pages) return pages.failure();
  std::vector<ConversationSummary> summaries;
  for (const Json& element : *pages) summaries.push_back(Summary(element));
  return summaries;
}

Outcome<ConversationSummary> GetConversation(const HttpClient& http, const std::string& id) {
  const Outcome<Json> json = Ask(http, "GET", "/conversations/" + id);
  if (!json) return json.failure();
  return Summary(*json);
}

Outcome<std::vector<InputMessage>> GetItems(const HttpClient& http, const std::string& id) {
  constexpr size_t kEverything = 1u << 20;
  const Outcome<std::vector<Json>> pages = AskPages(http, "/conversations/" + id + "/items", "&order=asc", kEverything);
  if (!pages) return pages.failure();
  std::vector<InputMessage> messages;
  std::string last;
  for (const Json& item : *pages) {
    std::string id = WholeOf(Text(item, "id"));
    InputMessage message = Message(item);
    if (!id.empty() && id == last) {
      messages.back().text += (messages.back().text.empty() ? "" : "\n") + message.text;
      messages.back().complete = message.complete;
    } else {
      messages.push_back(std::move(message));
    }
    last = std::move(id);
  }
  return messages;
}

Outcome<Done> SetTitle(const HttpClient& http, const std::string& id, const std::string& title) {
  Outcome<ConversationSummary> conversation = GetConversation(http, id);
  if (!conversation) return conversation.failure();
  conversation->metadata[kTitle] = title;
  const Outcome<Json> set =
      Ask(http, "POST", "/conversations/" + id, Dump({{"metadata", Json(conversation->metadata)}}));
  if (!set) return set.failure();
  return Done{};
}

Outcome<Done> DeleteConversation(const HttpClient& http, const std::string& id) {
  const Outcome<HttpAnswer> answer = http.Request("DELETE", "/conversations/" + id);
  if (!answer) return answer.failure();
  return Done{};
}

Outcome<std::string> ExportConversation(const HttpClient& http, const std::string& id) {
  Outcome<HttpAnswer> answer = http.Request("GET", "/conversations/" + id + "/export");
  if (!answer) return answer.failure();
  return std::move(answer->body);
}

Outcome<ConversationSummary> ImportConversation(const HttpClient& http, const std::string& bytes) {
  const Outcome<HttpAnswer> answer = http.Request("POST", "/conversations/import", bytes, "application/octet-stream");
  if (!answer) return answer.failure();
  const Json json = ParseJsonTree(answer->body, kLargeJson);
  if (!json.is_object() || Text(json, "id").empty()) return Unreadable();
  return Summary(json);
}

Outcome<ConversationVerdict> VerifyConversation(const HttpClient& http, const std::string& id) {
  const Outcome<Json> json = Ask(http, "POST", "/conversations/" + id + "/verify");
  if (!json) return json.failure();
  if (!json->contains("ok") || !(*json)["ok"].is_boolean()) return Unreadable();
  return ConversationVerdict{(*json)["ok"].get<bool>(), Integer(*json, "records", 0), Text(*json, "message")};
}

Outcome<ServerEvent> GetResponse(const HttpClient& http, const std::string& id) {
  const Outcome<HttpAnswer> answer = http.Request("GET", "/responses/" + id);
  if (!answer) return answer.failure();
  const std::optional<ServerEvent> event = ParseResponse(answer->body);
  if (!event) return Unreadable();
  return *event;
}

}  // namespace ringside::client
