#include "ws/realtime/realtime_events.h"

#include "ws/content/image_fields.h"
#include "ws/content/response_objects.h"
#include "ws/content/tool_names.h"
#include "ws/json/json_writer.h"
#include "ws/transport/http/http.h"

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
  if (response.status == ResponseStatus::kIncomplete) json.Field("reason", IncompleteDetail(response));
  if (!response.error.ok()) {
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
  json.Field("audio_tokens", 0);
  if (response.reasoning_tokens > 0) json.Field("reasoning_tokens", response.reasoning_tokens);
  json.EndObject().EndObject();
}

std::string ResponseMembers(const Response& response, const RealtimeAsked& asked, const std::string& items) {
  JsonWriter json;
  json.BeginObject().Field("object", "realtime.response").Field("id", response.id);
  json.Field("status", ResponseStatusName(response.refused ? ResponseStatus::kFailed : response.status));
  WriteStatusDetails(json, response);
  json.Key("output").BeginArray();
  if (!items.empty()) json.Raw(items);
  json.EndArray().Key("output_modalities").BeginArray().Value("text").EndArray();
  json.TextOrNull("conversation_id", asked.conversation);
  json.Key("max_output_tokens").Raw(asked.max_output_tokens).Key("metadata").Raw(asked.metadata);
  response.running() ? (void)json.Key("usage").Null() : WriteUsage(json, response);
  if (!response.running()) WriteReport(json.Key("ringside"), response);
  return "\"response\":" + json.EndObject().Take();
}

/// Position of an answer's text: from "response_id" to "content_index".
std::string PlaceOf(const Response& response) {
  return "\"response_id\":\"" + response.id + "\",\"item_id\":\"" + response.item_id +
         "\",\"output_index\":0,\"content_index\":0";
}

std::string ItemPlaceOf(const Response& response, size_t index, const std::string& item) {
  return "\"response_id\":\"" + response.id + "\",\"output_index\":" + std::to_string(index) + ",\"item\":" + item;
}

std::string CallObject(const std::string& id, const std::string& call_id, std::string_view status,
                       std::string_view name, std::string_view arguments) {
  const ClientTool tool = ClientToolOf(name);
  JsonWriter json;
  json.BeginObject().Field("id", id).Field("object", "realtime.item").Field("type", "function_call");
  json.Field("status", status).Field("call_id", call_id).Field("name", tool.name);
  if (!tool.space.empty()) json.Field("namespace", tool.space);
  return json.Field("arguments", arguments).EndObject().Take();
}

std::string CallObject(const Response& response, size_t call, std::string_view status, std::string_view name,
                       std::string_view arguments) {
  return CallObject(CallItemId(response.item_id, call), ToolCallId("call_", response.item_id, call), status, name,
                    arguments);
}

std::string MessageJson(const Response& response) {
  return RealtimeMessage(response.item_id, ChatRole::kAssistant, EndedMessageStatus(response), response.message());
}

std::string ItemsOf(const Response& response) {
  std::string items = response.opened ? MessageJson(response) : "";
  const std::vector<ToolCall> calls = response.tool_calls();
  for (size_t i = 0; i < calls.size(); ++i) {
    if (!items.empty()) items += ',';
    items += CallObject(response, i, calls[i].complete ? "completed" : "incomplete", calls[i].name, calls[i].arguments);
  }
  return items;
}

std::string PartOf(std::string_view text) {
  JsonWriter json;
  return ",\"part\":" + json.BeginObject().Field("type", "text").Field("text", text).EndObject().Take();
}

std::string RateLimits(const TokenShare& tokens) {
  JsonWriter json;
  json.BeginObject().Key("rate_limits").BeginArray().BeginObject().Field("name", "tokens");
  json.Field("limit", tokens.limit).Field("remaining", tokens.left);
  json.Field("reset_seconds", static_cast<double>(tokens.full_in_ms) / 1000).EndObject().EndArray();
  return json.Take().substr(1);
}

std::string Text(std::string_view name, std::string_view text) {
  std::string out = ",\"" + std::string(name) + "\":\"";
  AppendJsonEscaped(out, text);
  return out += '"';
}

}  // namespace

std::vector<ItemView> RealtimeViewsOf(const Item& item, const std::string& named) {
  const std::string status = item.complete ? "completed" : "incomplete";
  std::vector<ItemView> views;
  const auto add = [&](std::string own, const auto& json_of) {
    const std::string id = views.empty() && !named.empty() ? named : own;
    std::string json = json_of(id);
    views.push_back({std::move(own), std::move(json)});
  };
  if (item.role == ChatRole::kTool) {
    add(item.id, [&](const std::string& id) {
      JsonWriter json;
      json.BeginObject().Field("id", id).Field("object", "realtime.item").Field("type", "function_call_output");
      json.Field("status", status).Field("call_id", item.call_ids).Field("output", std::string_view(item.text));
      return json.EndObject().Take();
    });
    return views;
  }
  const std::vector<IdentifiedCall> calls = CallsOf(item, "call_");
  if (item.calls_at != 0 || calls.empty()) {
    add(item.id, [&](const std::string& id) {
      if (!item.images.empty()) {
        JsonWriter json;
        json.BeginObject().Field("id", id).Field("object", "realtime.item").Field("type", "message");
        json.Field("status", status).Field("role", ChatRoleName(item.role)).Key("content");
        WriteInputParts(json, item);
        return json.EndObject().Take();
      }
      const auto text = std::string_view(item.text).substr(0, static_cast<size_t>(item.calls_at));
      return RealtimeMessage(id, item.role, calls.empty() ? status : "completed", text);
    });
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    add(CallItemId(item.id, i), [&](const std::string& id) {
      const ToolCall& call = calls[i].call;
      return CallObject(id, calls[i].id, call.complete ? "completed" : "incomplete", call.name, call.arguments);
    });
  }
  return views;
}

std::string LastItemOf(const Response& response) {
  const std::vector<CallStep>& steps = response.call_steps;
  return steps.empty() ? response.item_id : CallItemId(response.item_id, steps.back().call);
}

std::string RealtimeMessage(std::string_view id, ChatRole role, std::string_view status, std::string_view text) {
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
    case TurnEvent::Kind::kBegun: {
      std::vector<std::string> events = {Event("response.created", ResponseMembers(response, asked, ""))};
      if (asked.tokens.limit > 0) events.push_back(Event("rate_limits.updated", RateLimits(asked.tokens)));
      return events;
    }
    case TurnEvent::Kind::kReasoningOpened:
    case TurnEvent::Kind::kReasoning:
    case TurnEvent::Kind::kReasoningEnded:
      return {};
    case TurnEvent::Kind::kOpened:
      return Opened(response, asked);
    case TurnEvent::Kind::kText:
      return {Event("response.output_text.delta", PlaceOf(response) + Text("delta", event.text))};
    case TurnEvent::Kind::kMessageEnded:
      return MessageEnded(response, asked);
    case TurnEvent::Kind::kCall:
    case TurnEvent::Kind::kCallText:
    case TurnEvent::Kind::kCallEnded:
      return Call(event, asked);
    case TurnEvent::Kind::kEnded:
      return Ended(response, asked);
  }
  return {};
}

std::vector<std::string> RealtimeWriter::Opened(const Response& response, const RealtimeAsked& asked) const {
  const std::string item = RealtimeMessage(response.item_id, ChatRole::kAssistant, "in_progress", "");
  std::vector<std::string> events = {Event("response.output_item.added", ItemPlaceOf(response, 0, item))};
  if (!asked.conversation.empty()) {
    events.push_back(Event("conversation.item.added", RealtimeItemMembers(asked.previous_item, item)));
  }
  events.push_back(Event("response.content_part.added", PlaceOf(response) + PartOf("")));
  return events;
}

std::vector<std::string> RealtimeWriter::MessageEnded(const Response& response, const RealtimeAsked& asked) const {
  const std::string item = MessageJson(response);
  std::vector<std::string> events = {
      Event("response.output_text.done", PlaceOf(response) + Text("text", response.message())),
      Event("response.content_part.done", PlaceOf(response) + PartOf(response.message())),
      Event("response.output_item.done", ItemPlaceOf(response, 0, item))};
  if (!asked.conversation.empty()) {
    events.push_back(Event("conversation.item.done", RealtimeItemMembers(asked.previous_item, item)));
  }
  return events;
}

std::vector<std::string> RealtimeWriter::Call(const TurnEvent& event, const RealtimeAsked& asked) const {
  const Response& response = *event.response;
  const size_t index = event.call + event.before.opened;  // reasoning is not an item of this protocol
  const std::string place = "\"response_id\":\"" + response.id + "\",\"item_id\":\"" +
                            CallItemId(response.item_id, event.call) + "\",\"output_index\":" + std::to_string(index) +
                            ",\"call_id\":\"" + ToolCallId("call_", response.item_id, event.call) + '"';
  if (event.kind == TurnEvent::Kind::kCallText) {
    return {Event("response.function_call_arguments.delta", place + Text("delta", event.text))};
  }
  const std::string previous = event.call > 0        ? CallItemId(response.item_id, event.call - 1)
                               : event.before.opened ? response.item_id
                                                     : asked.previous_item;
  const bool begins = event.kind == TurnEvent::Kind::kCall;
  const std::string item = CallObject(response, event.call,
                                      begins        ? "in_progress"
                                      : event.whole ? "completed"
                                                    : "incomplete",
                                      event.name, event.text);
  std::vector<std::string> events;
  if (!begins) {
    events.push_back(Event("response.function_call_arguments.done",
                           place + Text("name", ClientToolOf(event.name).name) + Text("arguments", event.text)));
  }
  const std::string suffix = begins ? "added" : "done";
  events.push_back(Event("response.output_item." + suffix, ItemPlaceOf(response, index, item)));
  if (!asked.conversation.empty()) {
    events.push_back(Event("conversation.item." + suffix, RealtimeItemMembers(previous, item)));
  }
  return events;
}

std::vector<std::string> RealtimeWriter::Ended(const Response& response, const RealtimeAsked& asked) const {
  std::vector<std::string> events;
  if (response.opened && response.call_steps.empty()) events = MessageEnded(response, asked);
  events.push_back(Event("response.done", ResponseMembers(response, asked, ItemsOf(response))));
  return events;
}

}  // namespace ringside
