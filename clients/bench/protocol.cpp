#include "clients/bench/protocol.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/json/json_tree.h"
#include "clients/wire/json_fields.h"

namespace ringside::client {
namespace {

using Json = nlohmann::json;

constexpr std::pair<Protocol, const char*> kNames[] = {
    {Protocol::kRingside, "ringside"},
    {Protocol::kResponsesWs, "responses-ws"},
    {Protocol::kResponsesHttp, "responses-http"},
    {Protocol::kChat, "chat"},
    {Protocol::kCompletions, "completions"},
};

/// A member that is an object, or else an empty object.
Json Member(const Json& json, const char* name) {
  if (!json.is_object()) return Json::object();
  const auto it = json.find(name);
  return it != json.end() && it->is_object() ? *it : Json::object();
}

HeardEvent Failed(const Json& error, const char* otherwise) {
  HeardEvent heard{.ends = true};
  heard.error = Text(error, "code");
  if (heard.error.empty()) heard.error = Text(error, "type");
  if (heard.error.empty()) heard.error = otherwise;
  heard.message = Text(error, "message");
  return heard;
}

HeardEvent ReadResponsesEvent(const Json& json) {
  const std::string type = Text(json, "type");
  if (type == "response.output_text.delta") return {.text = Text(json, "delta")};
  if (type == "response.reasoning_text.delta") return {.reasoning = Text(json, "delta")};
  if (type == "error") return Failed(json.contains("error") ? json["error"] : json, "error");
  const Json response = Member(json, "response");
  const bool interrupted = Text(Member(response, "incomplete_details"), "reason") == "interrupted";
  if (type == "response.failed" || interrupted) {
    return Failed(Member(response, "error"), interrupted ? "interrupted" : "failed");
  }
  if (type != "response.completed" && type != "response.incomplete") return {};
  const Json usage = Member(response, "usage");
  HeardEvent heard{.response_id = Text(response, "id"), .ends = true};
  heard.usage = TokenUsage{Count(usage, "input_tokens"), Count(Member(usage, "input_tokens_details"), "cached_tokens"),
                           Count(usage, "output_tokens")};
  return heard;
}

/// Reads a chunk of /chat/completions or /completions, which differ in the position of the text.
HeardEvent ReadChunk(const Json& json) {
  if (json.contains("error") && json["error"].is_object()) return Failed(json["error"], "error");
  HeardEvent heard;
  if (json.contains("choices") && json["choices"].is_array() && !json["choices"].empty()) {
    const Json& choice = json["choices"][0];
    heard.text = Text(Member(choice, "delta"), "content");
    if (heard.text.empty()) heard.text = Text(choice, "text");
    for (const char* name : {"reasoning", "reasoning_content"}) {  // servers send either name, or both
      if (heard.reasoning.empty()) heard.reasoning = Text(Member(choice, "delta"), name);
    }
  }
  const Json usage = Member(json, "usage");
  if (!usage.empty()) {
    heard.usage =
        TokenUsage{Count(usage, "prompt_tokens"), Count(Member(usage, "prompt_tokens_details"), "cached_tokens"),
                   Count(usage, "completion_tokens")};
  }
  return heard;
}

Json Messages(const TalkState& state, const std::string& text) {
  Json messages = Json::array();
  for (const InputMessage& message : state.history) {
    messages.push_back({{"role", message.role}, {"content", message.text}});
  }
  messages.push_back({{"role", "user"}, {"content", text}});
  return messages;
}

std::string Prompt(const TalkState& state, const std::string& text) {
  std::string prompt;
  for (const InputMessage& message : state.history) {
    prompt += (message.role == "user" ? "User: " : "Assistant: ") + message.text + "\n";
  }
  return prompt + "User: " + text + "\nAssistant:";
}

}  // namespace

std::optional<Protocol> ProtocolNamed(std::string_view name) {
  for (const auto& [protocol, known] : kNames) {
    if (name == known) return protocol;
  }
  return std::nullopt;
}

const char* ProtocolName(Protocol protocol) {
  for (const auto& [known, name] : kNames) {
    if (known == protocol) return name;
  }
  return "";
}

std::vector<std::string> ProtocolNames() {
  std::vector<std::string> names;
  for (const auto& [protocol, name] : kNames) names.emplace_back(name);
  return names;
}

std::string EncodeTurn(Protocol protocol, const TalkState& state, const std::string& text) {
  Json json = Json::object();
  if (!state.model.empty()) json["model"] = state.model;
  if (state.ignore_eos) json["ignore_eos"] = true;
  if (protocol == Protocol::kChat || protocol == Protocol::kCompletions) {
    json["stream"] = true;
    json["stream_options"] = {{"include_usage", true}};
    json["max_tokens"] = state.max_tokens;
    if (protocol == Protocol::kChat) {
      json["messages"] = Messages(state, text);
    } else {
      json["prompt"] = Prompt(state, text);
    }
  } else {
    json["input"] = text;
    json["max_output_tokens"] = state.max_tokens;
    if (!state.previous_response_id.empty()) json["previous_response_id"] = state.previous_response_id;
    if (protocol == Protocol::kResponsesWs) {
      json["type"] = "response.create";
    } else {
      json["stream"] = true;
    }
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

const char* TurnPath(Protocol protocol) {
  if (protocol == Protocol::kChat) return "/chat/completions";
  return protocol == Protocol::kCompletions ? "/completions" : "/responses";
}

HeardEvent ReadEvent(Protocol protocol, std::string_view data) {
  if (data == "[DONE]") return {.ends = true};
  const Json json = ParseJsonTree(data, kLargeJson);
  if (!json.is_object()) return {.ends = true, .error = "unreadable", .message = "an event that is not a JSON object"};
  const bool chunks = protocol == Protocol::kChat || protocol == Protocol::kCompletions;
  return chunks ? ReadChunk(json) : ReadResponsesEvent(json);
}

HeardEvent ReadRefusal(int status, std::string_view body) {
  const Json json = ParseJsonTree(body, kLargeJson);
  HeardEvent heard{.ends = true, .error = "http_" + std::to_string(status)};
  heard.message = Text(Member(json, "error"), "message");
  if (heard.message.empty()) heard.message = "HTTP " + std::to_string(status);
  return heard;
}

}  // namespace ringside::client
