#include "ws/realtime/realtime_settings.h"

#include "ws/fields/ignored_report.h"
#include "ws/fields/reasoning_fields.h"
#include "ws/json/json_text.h"
#include "ws/json/json_writer.h"
#include "ws/openai/responses/responses_fields.h"
#include "ws/openai/responses/responses_objects.h"
#include "ws/openai/responses/responses_sampling.h"
#include "ws/openai/tool_fields.h"

namespace ringside {
namespace {

/// How much of the conversation stays when it becomes too long. A window slides message by message and nothing is
/// computed again for it, so at least that much stays: three quarters (Eviction::kTurn) or all that fits.
Status ReadRetention(const JsonValue& value, const std::string& param, const SessionTableOptions& options,
                     IgnoredFields* ignored, RealtimeSettings* settings) {
  WindowOverrides window{.memory_len = options.memory_len, .eviction = options.eviction};
  bool has_ratio = false;
  for (const auto& [key, field] : value.object()) {
    const std::string at = param + "." + key.substr(0, 256);
    if (key == "type" || field.is_null()) continue;
    if (key == "retention_ratio") {
      double ratio = 0;
      RETURN_IF_ERROR(ReadNumber(field, at, &ratio));
      if (!(ratio >= 0 && ratio <= 1)) return InvalidArgument("A ratio lies in [0, 1].", at, "invalid_value");
      if (ratio > 0.75) window.eviction = Eviction::kToken;
      has_ratio = true;
    } else if (key == "token_limits") {
      if (!field.is_object()) return WrongType(field, at, "an object");
      for (const auto& [name, limit] : field.object()) {
        if (limit.is_null()) continue;
        const std::string place = at + "." + name;
        RETURN_IF_ERROR(name == "post_instructions"
                            ? ReadInteger(limit, place, 1, options.memory_len, &*window.memory_len)
                            : ignored->Unknown(place));
      }
    } else {
      RETURN_IF_ERROR(ignored->Unknown(at));
    }
  }
  if (!has_ratio) {
    return InvalidArgument("Missing required parameter: '" + param + ".retention_ratio'.", param + ".retention_ratio",
                           "missing_required_parameter");
  }
  settings->truncates = true;
  settings->window = window;
  return Status::Ok();
}

Status ReadTruncation(const JsonValue& value, const std::string& param, const SessionTableOptions& options,
                      IgnoredFields* ignored, RealtimeSettings* settings) {
  if (value.is_object()) {
    const JsonValue* type = value.Find("type");
    if (type == nullptr || !type->is_string() || type->string() != "retention_ratio") {
      return InvalidArgument("The only type is 'retention_ratio'.", param + ".type", "invalid_value");
    }
    RETURN_IF_ERROR(ReadRetention(value, param, options, ignored, settings));
  } else {
    std::string name;
    RETURN_IF_ERROR(ReadString(value, param, &name));
    if (name != "auto" && name != "disabled") {
      return InvalidArgument("Supported values are: 'auto', 'disabled' and a retention ratio.", param, "invalid_value");
    }
    settings->truncates = name == "auto";
    settings->window.reset();
  }
  JsonWriter json;
  WriteJson(json, value);
  settings->truncation = json.Take();
  return Status::Ok();
}

Status ReadField(const JsonValue& value, const std::string& key, const SessionTableOptions& options,
                 IgnoredFields* ignored, RealtimeSettings* settings) {
  const std::string param = "session." + key;
  std::string text;
  if (key == "type") {
    RETURN_IF_ERROR(ReadString(value, param, &text));
    return text == "realtime" ? Status::Ok() : Unsupported(param, "another 'type' than 'realtime'");
  }
  if (key == "model") {
    RETURN_IF_ERROR(ReadString(value, param, &text));
    if (ReadModelName(text, param, options, &settings->adapter).ok() && !text.empty()) return Status::Ok();
    return Unsupported(param, "another 'model' than '" + options.model_name + "' and its adapters");
  }
  if (key == "instructions") {
    RETURN_IF_ERROR(ReadString(value, param, &text));
    // Where none were ever given, clearing them says nothing.
    if (!text.empty() || settings->instructions) settings->instructions = std::move(text);
    return Status::Ok();
  }
  if (key == "max_output_tokens") return ReadMaxOutputTokens(value, param, &settings->max_output_tokens);
  if (key == "truncation") return ReadTruncation(value, param, options, ignored, settings);
  if (key == "tools") {
    ASSIGN_OR_RETURN(std::string tools, ReadRealtimeTools(value, param, ignored));
    // Where none were ever told, clearing them says nothing.
    if (tools != "[]" || settings->tools) settings->tools = std::move(tools);
    return Status::Ok();
  }
  if (key == "tool_choice") {
    ASSIGN_OR_RETURN(settings->tool_choice, ReadRealtimeToolChoice(value, param));
    return Status::Ok();
  }
  if (key == "parallel_tool_calls") return ReadBool(value, param, &settings->parallel_tool_calls.emplace());
  if (IsSamplingField(key)) {
    TurnSpec checked;
    RETURN_IF_ERROR(ReadSamplingField(value, key, &checked));
    // What beams allow depends on the other fields: the response checks it.
    if (!checked.sampling.beams.searches()) RETURN_IF_ERROR(checked.sampling.Validate(kAnyVocabulary));
    JsonWriter json;
    WriteJson(json, value);
    settings->sampling[key] = json.Take();
    return Status::Ok();
  }
  if (IsReasoningField(key)) {
    ReasoningRequest checked;
    const size_t before = ignored->names().size();
    RETURN_IF_ERROR(ReadReasoningField(value, key, param, ignored, &checked));
    if (ignored->names().size() > before) return Status::Ok();
    JsonWriter json;
    WriteJson(json, value);
    settings->sampling[key] = json.Take();
    return Status::Ok();
  }
  return IgnoreBesidesText(value, key, param, ignored);
}

}  // namespace

Status UpdateSettings(const JsonValue& session, const SessionTableOptions& options, RealtimeSettings* settings) {
  if (!session.is_object()) return WrongType(session, "session", "an object");
  RealtimeSettings updated = *settings;
  IgnoredFields ignored(options.strict_requests, "session.");
  for (const auto& [key, value] : session.object()) {
    // What the server gave may be sent back.
    if (value.is_null() || key == "id" || key == "object" || key == "ringside") continue;
    RETURN_IF_ERROR(ReadField(value, key, options, &ignored, &updated));
  }
  updated.ignored = ignored.names();
  *settings = std::move(updated);
  return Status::Ok();
}

std::string SettingsObject(const RealtimeSettings& settings, const SessionTableOptions& options) {
  JsonWriter json;
  json.BeginObject().Field("type", "realtime").Field("object", "realtime.session");
  if (!settings.id.empty()) json.Field("id", settings.id);
  json.Field("model", ModelNameOf(settings.adapter, options))
      .Key("output_modalities")
      .BeginArray()
      .Value("text")
      .EndArray();
  json.Field("instructions", settings.instructions.value_or("")).Key("max_output_tokens");
  settings.max_output_tokens ? json.Value(*settings.max_output_tokens) : json.Value("inf");
  json.Key("tools").Raw(settings.tools.value_or("[]")).Key("tool_choice").Raw(settings.tool_choice);
  if (settings.parallel_tool_calls) json.Field("parallel_tool_calls", *settings.parallel_tool_calls);
  for (const auto& [field, value] : settings.sampling) json.Key(field).Raw(value);
  json.Key("truncation").Raw(settings.truncation);
  if (settings.conversation.empty() && settings.ignored.empty()) return json.EndObject().Take();
  json.Key("ringside").BeginObject();
  if (!settings.conversation.empty()) json.Field("conversation", settings.conversation);
  WriteIgnored(json, settings.ignored);
  return json.EndObject().EndObject().Take();
}

Status ReadMaxOutputTokens(const JsonValue& value, const std::string& param, std::optional<int64_t>* out) {
  *out = std::nullopt;
  if (value.is_string()) {
    if (value.string() != "inf") return WrongType(value, param, "an integer or 'inf'");
    return Status::Ok();
  }
  TurnSpec spec;
  RETURN_IF_ERROR(ReadOutputTokens(value, param, 1, &spec));
  if (spec.max_output_tokens != kNoOutputLimit) *out = spec.max_output_tokens;
  return Status::Ok();
}

Result<std::string> ReadRealtimeTools(const JsonValue& value, const std::string& param, IgnoredFields* ignored) {
  ToolSet checked;
  RETURN_IF_ERROR(ReadTools(value, param, ToolShape::kFlat, /*strict_default=*/false, ignored, &checked));
  return ToolsEcho(value, /*strict_default=*/false);
}

Result<std::string> ReadRealtimeToolChoice(const JsonValue& value, const std::string& param) {
  ToolChoice checked;
  RETURN_IF_ERROR(ReadToolChoice(value, param, ToolShape::kFlat, &checked));
  JsonWriter json;
  WriteJson(json, value);
  return json.Take();
}

Status IgnoreBesidesText(const JsonValue& value, const std::string& key, const std::string& param,
                         IgnoredFields* ignored) {
  if (key == "output_modalities" || key == "modalities") {
    const bool text = value.is_array() && value.array().size() == 1 && value.array()[0].is_string() &&
                      value.array()[0].string() == "text";
    return text ? Status::Ok() : Unsupported(param, "output other than text: ask for [\"text\"]");
  }
  const bool empty = (value.is_array() && value.array().empty()) || (value.is_object() && value.object().empty());
  if (key == "prompt" && !empty) return Unsupported(param, "a stored prompt");
  return ignored->UnknownOfRequest(value, param);
}

}  // namespace ringside
