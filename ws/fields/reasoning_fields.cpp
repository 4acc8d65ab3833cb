#include "ws/fields/reasoning_fields.h"

#include <algorithm>
#include <map>

#include "ws/fields/field_readers.h"
#include "ws/json/json_text.h"
#include "ws/json/json_writer.h"

namespace ringside {
namespace {

using Mode = ReasoningSpec::Mode;

Status NotUnderstood(const std::string& param, IgnoredFields* ignored) {
  return ignored->Hint(param, "this '" + param + "'");
}

void SetMode(Mode mode, const std::string& param, ReasoningRequest* out) {
  out->spec.mode = mode;
  out->mode_field = param;
}

/// true or false.
Status Switch(const JsonValue& value, const std::string& param, IgnoredFields* ignored, ReasoningRequest* out) {
  if (!value.is_bool()) return NotUnderstood(param, ignored);
  SetMode(value.boolean() ? Mode::kOn : Mode::kOff, param, out);
  return Status::Ok();
}

/// Tokens; -1 = no limit.
Status Budget(const JsonValue& value, const std::string& param, IgnoredFields* ignored, ReasoningRequest* out) {
  int64_t tokens = 0;
  if (!ReadInteger(value, param, -1, INT32_MAX, &tokens).ok()) return NotUnderstood(param, ignored);
  if (tokens < 0) return Status::Ok();
  out->spec.budget_tokens = tokens;
  out->budget_field = param;
  return Status::Ok();
}

/// Ollama's: a switch or a level.
Status Think(const JsonValue& value, const std::string& param, IgnoredFields* ignored, ReasoningRequest* out) {
  return value.is_bool() ? Switch(value, param, ignored, out) : ReadReasoningEffort(value, param, ignored, out);
}

/// Anthropic's {"type", "budget_tokens"?, "display"?}.
Status Thinking(const JsonValue& value, const std::string& param, IgnoredFields* ignored, ReasoningRequest* out) {
  if (!value.is_object()) return Switch(value, param, ignored, out);
  static const std::map<std::string, Mode, std::less<>> modes = {{"enabled", Mode::kOn},
                                                                 {"adaptive", Mode::kDefault},
                                                                 {"auto", Mode::kDefault},
                                                                 {"between_tools", Mode::kDefault},
                                                                 {"disabled", Mode::kOff}};
  for (const auto& [key, field] : value.object()) {
    if (field.is_null()) continue;
    const std::string at = param + "." + key;
    if (key == "type") {
      const auto mode = modes.find(field.string());
      if (mode == modes.end()) return NotUnderstood(at, ignored);
      SetMode(mode->second, param, out);
    } else if (key == "budget_tokens") {
      RETURN_IF_ERROR(Budget(field, at, ignored, out));
    } else if (key == "display" && (field.string() == "omitted" || field.string() == "summarized")) {
      out->hidden = field.string() == "omitted";
    } else {
      RETURN_IF_ERROR(ignored->Unknown(at));
    }
  }
  return Status::Ok();
}

/// The object of the Responses API, with the members that OpenRouter adds to it.
Status Reasoning(const JsonValue& value, const std::string& param, IgnoredFields* ignored, ReasoningRequest* out) {
  if (!value.is_object()) return Switch(value, param, ignored, out);
  static constexpr std::string_view kSummaries[] = {"auto", "concise", "detailed"};
  for (const auto& [key, field] : value.object()) {
    if (field.is_null()) continue;
    const std::string at = param + "." + key;
    if (key == "effort") {
      RETURN_IF_ERROR(ReadReasoningEffort(field, at, ignored, out));
    } else if (key == "enabled") {
      RETURN_IF_ERROR(Switch(field, at, ignored, out));
    } else if (key == "max_tokens") {
      RETURN_IF_ERROR(Budget(field, at, ignored, out));
    } else if (key == "exclude" && field.is_bool()) {
      out->hidden = field.boolean();
    } else if (key == "summary" || key == "generate_summary") {
      const bool known = std::ranges::find(kSummaries, field.string()) != std::end(kSummaries);
      if (known) out->summary = field.string();
      if (!known) RETURN_IF_ERROR(NotUnderstood(at, ignored));
    } else {
      RETURN_IF_ERROR(ignored->Hint(at, "'" + at + "'"));
    }
  }
  return Status::Ok();
}

Status TemplateKwargs(const JsonValue& value, const std::string& param, IgnoredFields* ignored, ReasoningRequest* out) {
  if (!value.is_object()) return NotUnderstood(param, ignored);
  if (value.object().empty()) return Status::Ok();
  JsonWriter json;
  WriteJson(json, value);
  out->spec.template_kwargs = json.Take();
  out->template_field = param;
  return Status::Ok();
}

/// Whether the text of the reasoning is sent.
Status Include(const JsonValue& value, const std::string& param, IgnoredFields* ignored, ReasoningRequest* out) {
  if (!value.is_bool()) return NotUnderstood(param, ignored);
  out->hidden = !value.boolean();
  return Status::Ok();
}

/// llama-server's. Reasoning is always separate from the answer here.
Status Format(const JsonValue& value, const std::string& param, IgnoredFields* ignored, ReasoningRequest*) {
  const bool separate = value.string() == "auto" || value.string() == "deepseek";
  return separate ? Status::Ok() : NotUnderstood(param, ignored);
}

using Reader = Status (*)(const JsonValue&, const std::string&, IgnoredFields*, ReasoningRequest*);

const std::map<std::string, Reader, std::less<>>& Readers() {
  static const std::map<std::string, Reader, std::less<>> readers = {
      {"reasoning_effort", ReadReasoningEffort},
      {"reasoning", Reasoning},
      {"thinking", Thinking},
      {"think", Think},
      {"enable_thinking", Switch},
      {"thinking_budget", Budget},
      {"thinking_budget_tokens", Budget},
      {"thinking_token_budget", Budget},
      {"reasoning_budget", Budget},
      {"chat_template_kwargs", TemplateKwargs},
      {"include_reasoning", Include},
      {"reasoning_format", Format},
  };
  return readers;
}

}  // namespace

std::vector<std::string> ReasoningFields() {
  std::vector<std::string> fields;
  for (const auto& [field, reader] : Readers()) fields.push_back(field);
  return fields;
}

bool IsReasoningField(std::string_view key) { return Readers().find(key) != Readers().end(); }

Status ReadReasoningField(const JsonValue& value, std::string_view key, const std::string& param,
                          IgnoredFields* ignored, ReasoningRequest* out) {
  return Readers().find(key)->second(value, param, ignored, out);
}

Status ReadReasoningEffort(const JsonValue& value, const std::string& param, IgnoredFields* ignored,
                           ReasoningRequest* out) {
  static constexpr std::string_view kEfforts[] = {"minimal", "low", "medium", "high", "xhigh", "max"};
  if (value.string() == "none") {
    SetMode(Mode::kOff, param, out);
    return Status::Ok();
  }
  if (std::ranges::find(kEfforts, value.string()) == std::end(kEfforts)) return NotUnderstood(param, ignored);
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
