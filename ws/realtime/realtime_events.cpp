#include "ws/realtime/realtime_events.h"

#include "ws/json/json_writer.h"
#include "ws/openai/responses_objects.h"
#include "ws/transport/http.h"

namespace ringside {
namespace {

void WriteStatusDetails(JsonWriter& json, const Response& response) {
  json.Key("status_details");
  if (response.running() || response.status == ResponseStatus::kCompleted) {
    json.Null();
    return;
  }
  json.BeginObject().Field("type", ResponseStatusName(response.status));
  if (response.status == ResponseStatus::kCancelled) json.Field("reason", "client_cancelled");
  if (response.status == ResponseStatus::kIncomplete) json.Field("reason", IncompleteReason(response));
  if (response.status == ResponseStatus::kFailed) {
    const WireError error = MapStatus(response.error);
    json.Key("error").BeginObject().Field("type", error.type).Field("code", error.code);
    json.Field("message", error.message).EndObject();
  }
  json.EndObject();
}

void WriteUsage(JsonWriter& json, const Response& response) {
  json.Key("usage").BeginObject().Field("total_tokens", response.input_tokens + response.output_tokens);
  json.Field("input_tokens", response.input_tokens).Field("output_tokens", response.output_tokens);
  json.Key("input_token_details").BeginObject().Field("cached_tokens", response.report.tokens_reused);
  json.Field("text_tokens", response.input_tokens).Field("audio_tokens", 0).Field("image_tokens", 0).EndObject();
  json.Key("output_token_details").BeginObject().Field("text_tokens", response.output_tokens);
  json.Field("audio_tokens", 0).EndObject().EndObject();
}

std::string ResponseMembers(const Response& response, const RealtimeAsked& asked, const std::string& item) {
  JsonWriter json;
  json.BeginObject().Field("object", "realtime.response").Field("id", response.id);
  json.Field("status", ResponseStatusName(response.status));
  WriteStatusDetails(json, response);
  json.Key("output").BeginArray();
  if (!item.empty()) json.Raw(item);
  json.EndArray().Key("output_modalities").BeginArray().Value("text").EndArray();
  json.TextOrNull("conversation_id", asked.conversation);
  json.Key("max_output_tokens").Raw(asked.max_output_tokens).Key("metadata").Raw(asked.metadata);
  response.running() ? (void)json.Key("usage").Null() : WriteUsage(json, response);
  return "\"response\":" + json.EndObject().Take();
}

/// Where the text of an answer stands: "response_id": ..., to "content_index".
std::string PlaceOf(const Response& response) {
  return "\"response_id\":\"" + response.id + "\",\"item_id\":\"" + response.item_id +
         "\",\"output_index\":0,\"content_index\":0";
}

std::string ItemPlaceOf(const Response& response, const std::string& item) {
  return "\"response_id\":\"" + response.id + "\",\"output_index\":0,\"item\":" + item;
}

std::string PartOf(std::string_view text) {
  JsonWriter json;
  return ",\"part\":" + json.BeginObject().Field("type", "text").Field("text", text).EndObject().Take();
}

std::string Text(std::string_view name, std::string_view text) {
  std::string out = ",\"" + std::string(name) + "\":\"";
  AppendJsonEscaped(out, text);
  return out += '"';
}

}  // namespace

std::string RealtimeItemObject(std::string_view id, ChatRole role, std::string_view status, std::string_view text) {
  JsonWriter json;
  json.BeginObject().Field("id", id).Field("object", "realtime.item").Field("type", "message");
  json.Field("status", status).Field("role", ChatRoleName(role)).Key("content").BeginArray();
  if (status != "in_progress") {
    json.BeginObject().Field("type", role == ChatRole::kAssistant ? "output_text" : "input_text");
    json.Field("text", text).EndObject();
  }
  return json.EndArray().EndObject().Take();
}

std::string RealtimeItemMembers(std::string_view previous, const std::string& item) {
  JsonWriter json;
  json.BeginObject().TextOrNull("previous_item_id", previous);
  return json.Take().substr(1) + ",\"item\":" + item;
}

std::string RealtimeWriter::Event(std::string_view type, const std::string& members) const {
  std::string out = "{\"type\":\"";
  out.append(type).append("\",\"event_id\":\"event_").append(std::to_string(++events_)).append("\"");
  if (!members.empty()) out.append(",").append(members);
  return out += '}';
}

std::string RealtimeWriter::Error(const Status& status, std::string_view event_id, int64_t retry_after_ms) const {
  const WireError wire = MapStatus(status, retry_after_ms);
  JsonWriter json;
  json.BeginObject().Field("type", wire.type).Field("code", wire.code).Field("message", wire.message);
  json.TextOrNull("param", wire.param).TextOrNull("event_id", event_id);
  if (wire.retry_after_ms > 0) json.Field("retry_after_ms", wire.retry_after_ms);
  return Event("error", "\"error\":" + json.EndObject().Take());
}

std::vector<std::string> RealtimeWriter::Events(const TurnEvent& event, const RealtimeAsked& asked) const {
  const Response& response = *event.response;
  switch (event.kind) {
    case TurnEvent::Kind::kBegun:
      return {Event("response.created", ResponseMembers(response, asked, ""))};
    case TurnEvent::Kind::kOpened:
      return Opened(response, asked);
    case TurnEvent::Kind::kText:
      return {Event("response.output_text.delta", PlaceOf(response) + Text("delta", event.text))};
    case TurnEvent::Kind::kEnded:
      return Ended(response, asked);
  }
  return {};
}

std::vector<std::string> RealtimeWriter::Opened(const Response& response, const RealtimeAsked& asked) const {
  const std::string item = RealtimeItemObject(response.item_id, ChatRole::kAssistant, "in_progress", "");
  std::vector<std::string> events = {Event("response.output_item.added", ItemPlaceOf(response, item))};
  if (!asked.conversation.empty()) {
    events.push_back(Event("conversation.item.added", RealtimeItemMembers(asked.previous_item, item)));
  }
  events.push_back(Event("response.content_part.added", PlaceOf(response) + PartOf("")));
  return events;
}

std::vector<std::string> RealtimeWriter::Ended(const Response& response, const RealtimeAsked& asked) const {
  if (!response.opened) return {Event("response.done", ResponseMembers(response, asked, ""))};
  const char* status = response.status == ResponseStatus::kCompleted ? "completed" : "incomplete";
  const std::string item = RealtimeItemObject(response.item_id, ChatRole::kAssistant, status, response.text);
  std::vector<std::string> events = {
      Event("response.output_text.done", PlaceOf(response) + Text("text", response.text)),
      Event("response.content_part.done", PlaceOf(response) + PartOf(response.text)),
      Event("response.output_item.done", ItemPlaceOf(response, item))};
  if (!asked.conversation.empty()) {
    events.push_back(Event("conversation.item.done", RealtimeItemMembers(asked.previous_item, item)));
  }
  events.push_back(Event("response.done", ResponseMembers(response, asked, item)));
  return events;
}

}  // namespace ringside
