#include "ws/fields/reasoning_fields.h"

#include <algorithm>
#include <map>

#include "ws/fields/field_readers.h"
#include "ws/json/json_text.h"
#include "ws/json/json_writer.h"

namespace ringside {
namespace {

using Mode = ReasoningSpec::Mode;

Status NotUnderstood(const std::string& param, const FieldContext& context) {
  return context.ignored->Hint(param, "this '" + param + "'");
}

void SetMode(Mode mode, const std::string& param, ReasoningRequest* out) {
  out->spec.mode = mode;
  out->mode_field = param;
}

/// true or false.
Status Switch(const JsonValue& value, const std::string& param, const FieldContext& context, ReasoningRequest* out) {
  if (!value.is_bool()) return NotUnderstood(param, context);
  SetMode(value.boolean() ? Mode::kOn : Mode::kOff, param, out);
  return Status::Ok();
}

/// Tokens; -1 = no limit.
Status Budget(const JsonValue& value, const std::string& param, const FieldContext& context, ReasoningRequest* out) {
  int64_t tokens = 0;
  if (!ReadInteger(value, param, -1, INT32_MAX, &tokens).ok()) return NotUnderstood(param, context);
  if (tokens < 0) return Status::Ok();
  out->spec.budget_tokens = tokens;
  out->budget_field = param;
  return Status::Ok();
}

/// Ollama's field: a switch or a level.
Status Think(const JsonValue& value, const std::string& param, const FieldContext& context, ReasoningRequest* out) {
  return value.is_bool() ? Switch(value, param, context, out) : ReadReasoningEffort(value, param, context, out);
}

/// The type of Anthropic's object, which sets the mode.
Status ThinkingType(const JsonValue& value, const std::string& param, const FieldContext& context,
                    ReasoningRequest* out) {
  static const std::map<std::string, Mode, std::less<>> modes = {{"enabled", Mode::kOn},
                                                                 {"adaptive", Mode::kDefault},
                                                                 {"auto", Mode::kDefault},
                                                                 {"between_tools", Mode::kDefault},
                                                                 {"disabled", Mode::kOff}};
  const auto mode = modes.find(value.string());
  if (mode == modes.end()) return NotUnderstood(param, context);
  SetMode(mode->second, param.substr(0, param.rfind('.')), out);
  return Status::Ok();
}

Status Display(const JsonValue& value, const std::string& param, const FieldContext& context, ReasoningRequest* out) {
  const bool omitted = value.string() == "omitted";
  if (!omitted && value.string() != "summarized") return NotUnderstood(param, context);
  out->hidden = omitted;
  return Status::Ok();
}

Status Exclude(const JsonValue& value, const std::string& param, const FieldContext& context, ReasoningRequest* out) {
  if (!value.is_bool()) return NotUnderstood(param, context);
  out->hidden = value.boolean();
  return Status::Ok();
}

Status Summary(const JsonValue& value, const std::string& param, const FieldContext& context, ReasoningRequest* out) {
  static constexpr std::string_view kSummaries[] = {"auto", "concise", "detailed"};
  if (std::ranges::find(kSummaries, value.string()) == std::end(kSummaries)) return NotUnderstood(param, context);
  out->summary = value.string();
  return Status::Ok();
}

Status TemplateKwargs(const JsonValue& value, const std::string& param, const FieldContext& context,
                      ReasoningRequest* out) {
  if (!value.is_object()) return NotUnderstood(param, context);
  if (value.object().empty()) return Status::Ok();
  JsonWriter json;
  WriteJson(json, value);
  out->spec.template_kwargs = json.Take();
  out->template_field = param;
  return Status::Ok();
}

/// Determines whether the reasoning is sent.
Status Include(const JsonValue& value, const std::string& param, const FieldContext& context, ReasoningRequest* out) {
  if (!value.is_bool()) return NotUnderstood(param, context);
  out->hidden = !value.boolean();
  return Status::Ok();
}

/// llama-server's field. Reasoning is always separate from the answer here.
Status Format(const JsonValue& value, const std::string& param, const FieldContext& context, ReasoningRequest*) {
  const bool separate = value.string() == "auto" || value.string() == "deepseek";
  return separate ? Status::Ok() : NotUnderstood(param, context);
}

constexpr FieldPolicy kLenient = FieldPolicy::kLenient;
constexpr FieldType kSwitch = FieldType::kBool, kLevel = FieldType::kString, kTokens = FieldType::kInteger;

using Table = FieldTable<ReasoningRequest>;

/// An object with a table, or a switch.
FieldReader<ReasoningRequest> ObjectOrSwitch(const Table& members) {
  return
      [members](const JsonValue& value, const std::string& param, const FieldContext& context, ReasoningRequest* out) {
        return value.is_object() ? members.Read(value, context, out, param + ".") : Switch(value, param, context, out);
      };
}

/// The Responses API's object, with OpenRouter's additional members.
Table ReasoningMembers() {
  return Table({{"effort", kLevel, ReadReasoningEffort, kLenient},
                {"enabled", kSwitch, Switch, kLenient},
                {"max_tokens", kTokens, Budget, kLenient, "at least -1"},
                {"exclude", kSwitch, Exclude, kLenient},
                {"summary", kLevel, Summary, kLenient, "auto, concise, detailed"},
                {"generate_summary", AliasOf{"summary"}}});
}

/// Anthropic's object.
Table ThinkingMembers() {
  return Table({{"type", kLevel, ThinkingType, kLenient, "enabled, adaptive, auto, between_tools, disabled"},
                {"budget_tokens", kTokens, Budget, kLenient, "at least -1"},
                {"display", kLevel, Display, kLenient, "omitted, summarized"}});
}

}  // namespace

const Fields<ReasoningRequest>& ReasoningFields() {
  static const Table reasoning = ReasoningMembers(), thinking = ThinkingMembers();
  static const Fields<ReasoningRequest> rows = {
      {"reasoning_effort", kLevel, ReadReasoningEffort, kLenient},
      {"reasoning", FieldType::kObject | kSwitch, ObjectOrSwitch(reasoning), kLenient, reasoning},
      {"thinking", FieldType::kObject | kSwitch, ObjectOrSwitch(thinking), kLenient, thinking},
      {"think", kSwitch | kLevel, Think, kLenient},
      {"enable_thinking", kSwitch, Switch, kLenient},
      {"thinking_budget", kTokens, Budget, kLenient, "at least -1"},
      {"thinking_budget_tokens", kTokens, Budget, kLenient, "at least -1"},
      {"thinking_token_budget", kTokens, Budget, kLenient, "at least -1"},
      {"reasoning_budget", kTokens, Budget, kLenient, "at least -1"},
      {"chat_template_kwargs", FieldType::kObject, TemplateKwargs, kLenient},
      {"include_reasoning", kSwitch, Include, kLenient},
      {"reasoning_format", kLevel, Format, kLenient, "auto, deepseek"},
  };
  return rows;
}

Status ReadReasoningEffort(const JsonValue& value, const std::string& param, const FieldContext& context,
                           ReasoningRequest* out) {
  static constexpr std::string_view kEfforts[] = {"minimal", "low", "medium", "high", "xhigh", "max"};
  if (value.string() == "none") {
    SetMode(Mode::kOff, param, out);
    return Status::Ok();
  }
  if (std::ranges::find(kEfforts, value.string()) == std::end(kEfforts)) return NotUnderstood(param, context);
  out->spec.effort = value.string();
  out->effort_field = param;
  return Status::Ok();
}

Status SetReasoning(const ReasoningRequest& request, const SessionTableOptions& options, IgnoredFields* ignored,
                    TurnSpec* turn) {
  turn->reasoning = request.spec;
  if (request.spec.says_nothing() || !options.ignored_reasoning) return Status::Ok();
  Result<std::vector<std::string>> settings = options.ignored_reasoning(request.spec);
  if (!settings.ok()) {
    const Status& why = settings.status();
    if (why.code() != StatusCode::kInvalidArgument) return why;
    return InvalidArgument(why.message(), request.template_field, why.reason());
  }
  if (turn->sampling.beams.searches() && request.spec.budget_tokens) settings->emplace_back("budget_tokens");
  const std::map<std::string, std::string, std::less<>> fields = {{"mode", request.mode_field},
                                                                  {"effort", request.effort_field},
                                                                  {"budget_tokens", request.budget_field},
                                                                  {"template_kwargs", request.template_field}};
  for (const std::string& setting : *settings) {
    const size_t dot = std::min(setting.find('.'), setting.size());
    const auto field = fields.find(std::string_view(setting).substr(0, dot));
    const std::string name = (field != fields.end() ? field->second : "") + setting.substr(dot);
    if (!name.empty()) RETURN_IF_ERROR(ignored->Hint(name, "'" + name + "' with this model"));
  }
  return Status::Ok();
}

}  // namespace ringside
