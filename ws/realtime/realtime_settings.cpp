#include "ws/realtime/realtime_settings.h"

#include "ws/json/json_text.h"
#include "ws/json/json_writer.h"
#include "ws/openai/responses_fields.h"
#include "ws/openai/tool_fields.h"

namespace ringside {
namespace {

Status ReadTruncation(const JsonValue& value, const std::string& param, bool* truncates) {
  if (value.is_object()) return Unsupported(param, "a retention ratio: the window of a conversation is the server's");
  std::string name;
  RETURN_IF_ERROR(ReadString(value, param, &name));
  if (name != "auto" && name != "disabled") {
    return InvalidArgument("Supported values are: 'auto' and 'disabled'.", param, "invalid_value");
  }
  *truncates = name == "auto";
  return Status::Ok();
}

Status ReadField(const JsonValue& value, const std::string& key, const std::string& model, RealtimeSettings* settings) {
  const std::string param = "session." + key;
  std::string text;
  if (key == "type" || key == "model") {
    RETURN_IF_ERROR(ReadString(value, param, &text));
    const std::string& expected = key == "type" ? "realtime" : model;
    return text == expected ? Status::Ok() : Unsupported(param, "another '" + key + "' than '" + expected + "'");
  }
  if (key == "instructions") {
    RETURN_IF_ERROR(ReadString(value, param, &text));
    // Where none were ever given, clearing them says nothing.
    if (!text.empty() || settings->instructions) settings->instructions = std::move(text);
    return Status::Ok();
  }
  if (key == "max_output_tokens") return ReadMaxOutputTokens(value, param, &settings->max_output_tokens);
  if (key == "truncation") return ReadTruncation(value, param, &settings->truncates);
  if (key == "tools") {
    ASSIGN_OR_RETURN(std::string tools, ReadRealtimeTools(value, param));
    // Where none were ever told, clearing them says nothing.
    if (tools != "[]" || settings->tools) settings->tools = std::move(tools);
    return Status::Ok();
  }
  if (key == "tool_choice") {
    ASSIGN_OR_RETURN(settings->tool_choice, ReadRealtimeToolChoice(value, param));
    return Status::Ok();
  }
  return CheckBesidesText(value, key, param);
}

}  // namespace

Status UpdateSettings(const JsonValue& session, const std::string& model, RealtimeSettings* settings) {
  if (!session.is_object()) return WrongType(session, "session", "an object");
  RealtimeSettings updated = *settings;
  for (const auto& [key, value] : session.object()) {
    // What the server gave may be sent back.
    if (value.is_null() || key == "id" || key == "object" || key == "ringside") continue;
    RETURN_IF_ERROR(ReadField(value, key, model, &updated));
  }
  *settings = std::move(updated);
  return Status::Ok();
}

std::string SettingsObject(const RealtimeSettings& settings, const std::string& model) {
  JsonWriter json;
  json.BeginObject().Field("type", "realtime").Field("object", "realtime.session").Field("id", settings.id);
  json.Field("model", model).Key("output_modalities").BeginArray().Value("text").EndArray();
  json.Field("instructions", settings.instructions.value_or("")).Key("max_output_tokens");
  settings.max_output_tokens ? json.Value(*settings.max_output_tokens) : json.Value("inf");
  json.Key("tools").Raw(settings.tools.value_or("[]")).Key("tool_choice").Raw(settings.tool_choice);
  json.Field("truncation", settings.truncates ? "auto" : "disabled");
  json.Key("ringside").BeginObject().Field("conversation", settings.conversation).EndObject();
  return json.EndObject().Take();
}

Status ReadMaxOutputTokens(const JsonValue& value, const std::string& param, std::optional<int64_t>* out) {
  if (value.is_string()) {
    if (value.string() != "inf") return WrongType(value, param, "an integer or 'inf'");
    *out = std::nullopt;
    return Status::Ok();
  }
  int64_t tokens = 0;
  RETURN_IF_ERROR(ReadInteger(value, param, 1, INT64_MAX, &tokens));
  *out = tokens;
  return Status::Ok();
}

Result<std::string> ReadRealtimeTools(const JsonValue& value, const std::string& param) {
  ToolSet checked;
  RETURN_IF_ERROR(ReadTools(value, param, ToolShape::kFlat, /*strict_default=*/false, &checked));
  return ToolsEcho(value, /*strict_default=*/false);
}

Result<std::string> ReadRealtimeToolChoice(const JsonValue& value, const std::string& param) {
  ToolChoice checked;
  RETURN_IF_ERROR(ReadToolChoice(value, param, ToolShape::kFlat, &checked));
  JsonWriter json;
  WriteJson(json, value);
  return json.Take();
}

Status CheckBesidesText(const JsonValue& value, const std::string& key, const std::string& param) {
  if (key == "output_modalities") {
    const bool text = value.is_array() && value.array().size() == 1 && value.array()[0].is_string() &&
                      value.array()[0].string() == "text";
    return text ? Status::Ok() : Unsupported(param, "output other than text: ask for [\"text\"]");
  }
  if (key == "parallel_tool_calls") {
    bool flag = false;
    return ReadBool(value, param, &flag);
  }
  for (const char* name : {"audio", "include", "prompt", "reasoning", "tracing"}) {
    if (key != name) continue;
    const bool empty = (value.is_array() && value.array().empty()) || (value.is_object() && value.object().empty());
    return empty ? Status::Ok() : Unsupported(param, "'" + key + "'");
  }
  return UnknownParameter(param);
}

}  // namespace ringside
