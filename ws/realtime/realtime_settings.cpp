#include "ws/realtime/realtime_settings.h"

#include "session/model_source.h"
#include "ws/content/response_objects.h"
#include "ws/content/tool_fields.h"
#include "ws/fields/common_fields.h"
#include "ws/fields/ignored_report.h"
#include "ws/fields/reasoning_fields.h"
#include "ws/fields/sampling_fields.h"
#include "ws/json/json_text.h"
#include "ws/json/json_writer.h"

namespace ringside {
namespace {

std::string JsonOf(const JsonValue& value) {
  JsonWriter json;
  WriteJson(json, value);
  return json.Take();
}

/// Settings of a retention ratio.
struct Retention {
  WindowOverrides window;
};

Status ReadRatio(const JsonValue& value, const std::string& param, const FieldContext&, Retention* retention) {
  double ratio = 0;
  RETURN_IF_ERROR(ReadNumber(value, param, &ratio));
  if (!(ratio >= 0 && ratio <= 1)) return InvalidArgument("A ratio lies in [0, 1].", param, "invalid_value");
  if (ratio > 0.75) retention->window.eviction = Eviction::kToken;
  return Status::Ok();
}

Status ReadLimit(const JsonValue& value, const std::string& param, const FieldContext& context, Retention* retention) {
  return ReadInteger(value, param, 1, context.options.memory_len, &retention->window.memory_len.emplace());
}

Status CheckRetentionType(const JsonValue& value, const std::string& param, const FieldContext&, void*) {
  if (value.string() == "retention_ratio") return Status::Ok();
  return InvalidArgument("The only type is 'retention_ratio'.", param, "invalid_value");
}

const FieldTable<Retention>& RetentionTable() {
  static const FieldTable<Retention> limits({{"post_instructions", FieldType::kInteger, ReadLimit}});
  static const FieldTable<Retention> table(
      {{"type", FieldType::kString, CheckRetentionType, FieldPolicy::kRead, "retention_ratio"},
       {"retention_ratio", FieldType::kNumber, ReadRatio, FieldPolicy::kRead, "0 to 1"},
       {"token_limits", limits}});
  return table;
}

/// Share of a too long conversation to keep. A window slides by messages without recomputation, so it keeps at least
/// that much: three quarters (Eviction::kTurn) or everything that fits.
Status ReadRetention(const JsonValue& value, const std::string& param, const FieldContext& context,
                     RealtimeSettings* settings) {
  const SessionTableOptions& options = context.options;
  Retention retention{.window = {.memory_len = options.memory_len, .eviction = options.eviction}};
  RETURN_IF_ERROR(RetentionTable().Read(value, context, &retention, param + "."));
  for (const char* required : {"type", "retention_ratio"}) {
    if (value.Find(required) == nullptr) return MissingParameter(param + "." + required);
  }
  settings->truncates = true;
  settings->window = retention.window;
  return Status::Ok();
}

Status ReadTruncation(const JsonValue& value, const std::string& param, const FieldContext& context,
                      RealtimeSettings* settings) {
  if (value.is_object()) {
    RETURN_IF_ERROR(ReadRetention(value, param, context, settings));
  } else {
    std::string name;
    RETURN_IF_ERROR(ReadString(value, param, &name));
    if (name != "auto" && name != "disabled") {
      return InvalidArgument("Supported values are: 'auto', 'disabled' and a retention ratio.", param, "invalid_value");
    }
    settings->truncates = name == "auto";
    settings->window.reset();
  }
  settings->truncation = JsonOf(value);
  return Status::Ok();
}

Status CheckType(const JsonValue& value, const std::string& param, const FieldContext&, void*) {
  std::string text;
  RETURN_IF_ERROR(ReadString(value, param, &text));
  return text == "realtime" ? Status::Ok() : Unsupported(param, "another 'type' than 'realtime'");
}

Status ReadSessionModel(const JsonValue& value, const std::string& param, const FieldContext& context,
                        RealtimeSettings* settings) {
  std::string text;
  RETURN_IF_ERROR(ReadString(value, param, &text));
  const SessionTableOptions& options = context.options;
  if (options.models != nullptr) {
    const Result<std::string> name = options.models->Resolve(text, param);
    if (!name.ok() || *name == options.model_name) return name.status();
  } else if (ReadModelName(text, param, options, &settings->adapter).ok() && !text.empty()) {
    return Status::Ok();
  }
  return Unsupported(param, "another 'model' than '" + options.model_name + "' and its adapters");
}

/// null clears earlier instructions.
Status ReadSessionInstructions(const JsonValue& value, const std::string& param, const FieldContext&,
                               RealtimeSettings* settings) {
  std::string text;
  RETURN_IF_ERROR(ReadString(value, param, &text));
  if (!text.empty() || settings->instructions) settings->instructions = std::move(text);
  return Status::Ok();
}

/// As ReadSessionInstructions, for tools.
Status ReadSessionTools(const JsonValue& value, const std::string& param, const FieldContext& context,
                        RealtimeSettings* settings) {
  ASSIGN_OR_RETURN(std::string tools, ReadRealtimeTools(value, param, context.ignored));
  if (tools != "[]" || settings->tools) settings->tools = std::move(tools);
  return Status::Ok();
}

/// A count; "inf" or -1 = no limit.
Status ReadMaxOutputTokens(const JsonValue& value, const std::string& param, const FieldContext& context,
                           RealtimeSettings* settings) {
  static const Field<TurnSpec> row = OutputTokensField("max_output_tokens");
  std::optional<int64_t>& out = settings->max_output_tokens;
  out = std::nullopt;
  if (value.is_string()) {
    return value.string() == "inf" ? Status::Ok() : WrongType(value, param, "an integer or 'inf'");
  }
  TurnSpec spec;
  RETURN_IF_ERROR(row.read(value, param, context, &spec));
  if (spec.max_output_tokens != kNoOutputLimit) out = spec.max_output_tokens;
  return Status::Ok();
}

/// Checks the tool choice in Responses' form; returns its JSON for a Responses request.
Status ReadChoice(const JsonValue& value, const std::string& param, const FieldContext&, RealtimeSettings* settings) {
  ToolChoice checked;
  RETURN_IF_ERROR(ReadToolChoice(value, param, ToolShape::kFlat, &checked));
  settings->tool_choice = JsonOf(value);
  return Status::Ok();
}

/// Fields of a Responses request whose checked values are kept as JSON.
Fields<RealtimeSettings> KeptRows() {
  Fields<RealtimeSettings> rows;
  for (const Field<TurnSpec>& row : SamplingFields()) {
    const auto keep = [name = row.info.name, read = row.read](const JsonValue& value, const std::string& param,
                                                              const FieldContext& context, RealtimeSettings* settings) {
      TurnSpec checked;
      RETURN_IF_ERROR(read(value, param, context, &checked));
      // Validity with beams depends on other fields, so the response checks it.
      if (!checked.sampling.beams.searches()) RETURN_IF_ERROR(checked.sampling.Validate(kAnyVocabulary));
      settings->sampling[name] = JsonOf(value);
      return Status::Ok();
    };
    rows.emplace_back(row.info.name, row.info.type, keep, row.info.policy, row.info.limits);
  }
  for (const Field<ReasoningRequest>& row : ReasoningFields()) {
    const auto keep = [name = row.info.name, read = row.read](const JsonValue& value, const std::string& param,
                                                              const FieldContext& context, RealtimeSettings* settings) {
      ReasoningRequest checked;
      const size_t before = context.ignored->names().size();
      RETURN_IF_ERROR(read(value, param, context, &checked));
      if (context.ignored->names().size() == before) settings->sampling[name] = JsonOf(value);
      return Status::Ok();
    };
    rows.emplace_back(row.info.name, row.info.type, keep, row.info.policy, row.info.limits);
    rows.back().members = row.members;
  }
  return rows;
}

}  // namespace

const Fields<RealtimeSettings>& RealtimeFormRows() {
  static const Fields<void> others = {
      TextOnlyField("output_modalities", "output other than text: ask for [\"text\"]"),
      TextOnlyField("modalities", "output other than text: ask for [\"text\"]"),
      {"prompt", Refuse{.what = "a stored prompt"}},
  };
  static const Fields<RealtimeSettings> rows = Join(
      Fields<RealtimeSettings>{
          {"max_output_tokens", FieldType::kInteger | FieldType::kString, ReadMaxOutputTokens, FieldPolicy::kClamp,
           "at least 1, or \"inf\", or -1"},
          {"tool_choice", FieldType::kString | FieldType::kObject, ReadChoice},
          {"parallel_tool_calls", &RealtimeSettings::parallel_tool_calls},
      },
      KeptRows(), others, ForeignFields());
  return rows;
}

const FieldTable<RealtimeSettings>& SettingsTable() {
  static const FieldTable<RealtimeSettings> table(Join(
      Fields<RealtimeSettings>{
          {"type", FieldType::kString, CheckType, FieldPolicy::kRead, "realtime"},
          {"model", FieldType::kString, ReadSessionModel},
          {"instructions", FieldType::kString, ReadSessionInstructions},
          {"truncation", FieldType::kString | FieldType::kObject, ReadTruncation, FieldPolicy::kRead, RetentionTable()},
          {"tools", FieldType::kArray, ReadSessionTools},
          // Clients may send back what the server sent.
          {"id", Silent{}},
          {"object", Silent{}},
          {"ringside", Silent{}},
      },
      RealtimeFormRows()));
  return table;
}

Status UpdateSettings(const JsonValue& session, const SessionTableOptions& options, RealtimeSettings* settings) {
  if (!session.is_object()) return WrongType(session, "session", "an object");
  RealtimeSettings updated = *settings;
  IgnoredFields ignored(options.strict_requests, "session.");
  RETURN_IF_ERROR(SettingsTable().Read(session, {options, &ignored}, &updated, "session."));
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

Result<std::string> ReadRealtimeTools(const JsonValue& value, const std::string& param, IgnoredFields* ignored) {
  ToolSet checked;
  RETURN_IF_ERROR(ReadTools(value, param, ToolShape::kFlat, /*strict_default=*/false, ignored, &checked));
  return ToolsEcho(value, /*strict_default=*/false);
}

}  // namespace ringside
