#include "ws/content/tool_fields.h"

#include <algorithm>

#include "base/limits.h"
#include "engine/grammar/grammar_source.h"
#include "engine/grammar/regex.h"
#include "engine/grammar/tools/lark.h"
#include "engine/grammar/tools/tool_calls.h"
#include "session/tools/tool_calls.h"
#include "ws/content/item_fields.h"
#include "ws/content/tool_names.h"
#include "ws/fields/field_readers.h"
#include "ws/json/json_text.h"
#include "ws/json/json_writer.h"

namespace ringside {
namespace {

std::string At(const std::string& param, size_t index) { return param + "[" + std::to_string(index) + "]"; }

Status ReadName(const JsonValue* value, const std::string& param, std::string* out) {
  if (value == nullptr) return MissingParameter(param);
  RETURN_IF_ERROR(ReadString(*value, param, out));
  if (IsToolName(*out)) return Status::Ok();
  return InvalidArgument("A function's name has 1 to 64 of the characters A-Z a-z 0-9 _ -", param, "invalid_value");
}

/// Parses a function's fields, the members of one object.
Status ReadFunction(const JsonValue& value, const std::string& param, bool has_type, IgnoredFields* ignored,
                    ToolFields* fields) {
  static constexpr std::string_view kHints[] = {"defer_loading", "async", "allowed_callers", "output_schema"};
  for (const auto& [key, field] : value.object()) {
    if (field.is_null() || (has_type && key == "type")) continue;
    const std::string name = param + "." + key.substr(0, 256);
    if (key == "name") {
      fields->name = &field;
    } else if (key == "description") {
      fields->description = &field;
    } else if (key == "parameters") {
      fields->parameters = &field;
    } else if (key == "strict") {
      fields->strict = &field;
    } else if (std::ranges::count(kHints, key) == 0) {
      RETURN_IF_ERROR(ignored->Unknown(name));
    } else {
      RETURN_IF_ERROR(ignored->HintUnlessEmpty(field, name));
    }
  }
  return Status::Ok();
}

/// A tool's type; "function" if absent.
Status ReadType(const JsonValue& value, const std::string& param, std::string* out) {
  const JsonValue* type = value.Find("type");
  *out = "function";
  return type == nullptr ? Status::Ok() : ReadString(*type, param + ".type", out);
}

/// The model's name of the tool in {"type": "function" or "custom", ...}.
Status ReadNamed(const JsonValue& value, const std::string& param, ToolShape shape, std::string* name) {
  if (!value.is_object()) return WrongType(value, param, "an object");
  if (value.Find("type") == nullptr) return MissingParameter(param + ".type");
  std::string type, own, space;
  RETURN_IF_ERROR(ReadType(value, param, &type));
  if (type != "function" && type != "custom") {
    return Unsupported(param + ".type", "tools of type '" + type.substr(0, 64) + "'");
  }
  const JsonValue* holder = &value;
  std::string at = param;
  if (shape == ToolShape::kNested) {
    holder = value.Find(type);
    at += "." + type;
    if (holder == nullptr) return MissingParameter(at);
    if (!holder->is_object()) return WrongType(*holder, at, "an object");
  }
  RETURN_IF_ERROR(ReadName(holder->Find("name"), at + ".name", &own));
  if (const JsonValue* named = holder->Find("namespace"); named != nullptr) {
    RETURN_IF_ERROR(ReadName(named, at + ".namespace", &space));
  }
  *name = ModelToolName({.space = space, .name = own, .custom = type == "custom"});
  return Status::Ok();
}

Status ReadAllowed(const JsonValue& value, const std::string& param, ToolShape shape, ToolChoice* out) {
  const JsonValue* holder = &value;
  std::string at = param;
  if (shape == ToolShape::kNested) {
    holder = value.Find("allowed_tools");
    at += ".allowed_tools";
    if (holder == nullptr) return MissingParameter(at);
  }
  const JsonValue *mode = holder->Find("mode"), *tools = holder->Find("tools");
  if (tools == nullptr) return MissingParameter(at + ".tools");
  if (!tools->is_array()) return WrongType(*tools, at + ".tools", "an array");
  std::string name = "auto";
  if (mode != nullptr) RETURN_IF_ERROR(ReadString(*mode, at + ".mode", &name));
  if (name != "auto" && name != "required") {
    return InvalidArgument("Supported values are: 'auto' and 'required'.", at + ".mode", "invalid_value");
  }
  out->mode = name == "auto" ? ToolChoice::Mode::kAuto : ToolChoice::Mode::kRequired;
  if (tools->array().empty()) return InvalidArgument("At least one tool is named.", at + ".tools", "invalid_value");
  if (tools->array().size() > static_cast<size_t>(limits::kMaxTools)) {
    return InvalidArgument("'tools' has too many entries.", at + ".tools", "array_above_max_length");
  }
  for (size_t i = 0; i < tools->array().size(); ++i) {
    RETURN_IF_ERROR(ReadNamed(tools->array()[i], At(at + ".tools", i), shape, &out->names.emplace_back()));
  }
  return Status::Ok();
}

/// Common context of a request's tools.
struct ToolReading {
  ToolShape shape;
  bool strict_default;
  IgnoredFields* ignored;
  ToolSet* out;
};

Status ReadFunctionTool(const JsonValue& tool, const std::string& param, std::string_view space,
                        const ToolReading& how) {
  const JsonValue* function = &tool;
  std::string at = param;
  if (how.shape == ToolShape::kNested) {
    for (const auto& [key, field] : tool.object()) {
      if (key == "type" || key == "function" || field.is_null()) continue;
      RETURN_IF_ERROR(how.ignored->Unknown(at + "." + key));
    }
    function = tool.Find("function");
    at += ".function";
    if (function == nullptr) return MissingParameter(at);
    if (!function->is_object()) return WrongType(*function, at, "an object");
  }
  ToolFields fields{.space = space};
  RETURN_IF_ERROR(ReadFunction(*function, at, how.shape == ToolShape::kFlat, how.ignored, &fields));
  return AddTool(fields, at, "parameters", how.strict_default, how.out);
}

/// True if the regular expression is supported.
bool IsReadable(const std::string& regex) {
  GrammarBudget budget({.steps = 1'000'000, .bytes = 8 << 20});
  GrammarSource source(budget);
  return ReadRegex(regex, &source, {}).ok() && budget.ok();
}

/// {"type": "text"} or {"type": "grammar", "syntax": "lark" or "regex", "definition"}, one level deeper in chat:
/// returned as a regular expression for the whole input, "" = any. A grammar without an equivalent is ignored.
Status ReadInputFormat(const JsonValue& value, const std::string& param, IgnoredFields* ignored, std::string* regex) {
  const auto text_of = [](const JsonValue& object, const char* key) {
    const JsonValue* field = object.Find(key);
    return field != nullptr ? field->string() : std::string();
  };
  if (text_of(value, "type") == "text") return Status::Ok();
  const JsonValue* nested = value.Find("grammar");
  const JsonValue& grammar = nested != nullptr ? *nested : value;
  const std::string syntax = text_of(grammar, "syntax"), definition = text_of(grammar, "definition");
  if (syntax == "regex" && IsReadable(definition)) *regex = definition;
  if (syntax == "lark") {
    const Result<std::string> read = LarkToRegex(definition);
    if (read.ok() && IsReadable(*read)) *regex = *read;
  }
  return regex->empty() ? ignored->Hint(param, "this format of a custom tool's input") : Status::Ok();
}

/// A custom tool is a function with one string.
Status ReadCustomTool(const JsonValue& tool, const std::string& param, const ToolReading& how) {
  const JsonValue* holder = how.shape == ToolShape::kNested ? tool.Find("custom") : &tool;
  const std::string at = how.shape == ToolShape::kNested ? param + ".custom" : param;
  if (holder == nullptr) return MissingParameter(at);
  if (!holder->is_object()) return WrongType(*holder, at, "an object");
  std::string regex;
  for (const auto& [key, field] : holder->object()) {
    if (field.is_null() || key == "type" || key == "name" || key == "description") continue;
    const std::string name = at + "." + key;
    RETURN_IF_ERROR(key == "format" ? ReadInputFormat(field, name, how.ignored, &regex) : how.ignored->Unknown(name));
  }
  JsonWriter json;
  json.BeginObject().Field("type", "object").Key("properties").BeginObject().Key("input").BeginObject();
  json.Field("type", "string");
  if (!regex.empty()) json.Field("pattern", "^(?:" + regex + ")$");
  json.EndObject().EndObject().Key("required").BeginArray().Value("input").EndArray();
  ASSIGN_OR_RETURN(const JsonValue schema, ParseJson(json.Field("additionalProperties", false).EndObject().text()));
  const ToolFields fields{
      .name = holder->Find("name"), .description = holder->Find("description"), .parameters = &schema, .custom = true};
  return AddTool(fields, at, "format", /*strict_default=*/true, how.out);
}

Status ReadTool(const JsonValue& tool, const std::string& at, std::string_view space, const ToolReading& how);

/// {"type": "namespace", "name", "description"?, "tools": [...]}: its functions.
Status ReadNamespace(const JsonValue& value, const std::string& at, const ToolReading& how) {
  std::string space;
  RETURN_IF_ERROR(ReadName(value.Find("name"), at + ".name", &space));
  if (space == kCustomSpace) {
    return InvalidArgument("A namespace may have any other name: 'custom' is that of custom tools.", at + ".name",
                           "invalid_value");
  }
  const JsonValue* tools = value.Find("tools");
  if (tools == nullptr) return MissingParameter(at + ".tools");
  if (!tools->is_array()) return WrongType(*tools, at + ".tools", "an array of tools");
  for (const auto& [key, field] : value.object()) {
    if (field.is_null() || key == "type" || key == "name" || key == "description" || key == "tools") continue;
    RETURN_IF_ERROR(how.ignored->Unknown(at + "." + key));
  }
  for (size_t i = 0; i < tools->array().size(); ++i) {
    RETURN_IF_ERROR(ReadTool(tools->array()[i], At(at + ".tools", i), space, how));
  }
  return Status::Ok();
}

Status ReadTool(const JsonValue& tool, const std::string& at, std::string_view space, const ToolReading& how) {
  if (!tool.is_object()) return WrongType(tool, at, "an object");
  std::string type;
  RETURN_IF_ERROR(ReadType(tool, at, &type));
  if (type == "function") return ReadFunctionTool(tool, at, space, how);
  if (type == "custom" && space.empty()) return ReadCustomTool(tool, at, how);
  if (type == "namespace" && space.empty() && how.shape == ToolShape::kFlat) return ReadNamespace(tool, at, how);
  const std::string shown = type.substr(0, 64), what = "tools of type '" + shown + "'";
  return how.ignored->strict() ? Unsupported(at + ".type", what) : how.ignored->Hint(at + "." + shown, what);
}

/// "tools[3]" for "tools[3].function".
std::string PlaceOf(const std::string& param) {
  const size_t end = param.rfind(']');
  return end == std::string::npos ? param : param.substr(0, end + 1);
}

enum class CallShape { kWhole, kCut, kNone };

/// State of the arguments after their text, considering strings and brackets only.
CallShape ShapeOf(std::string_view arguments) {
  std::string text;
  int64_t calls_at = -1;
  AppendToolCall("f", arguments, &text, &calls_at);
  const std::vector<ToolCall> calls = ReadToolCalls(text);
  if (calls.size() != 1 || calls[0].arguments != arguments) return CallShape::kNone;
  return calls[0].complete ? CallShape::kWhole : CallShape::kCut;
}

/// Copies the text unchanged, because the model may have written it. Surrounding white space is dropped unless the text
/// was cut, possibly inside a string. White space alone leaves `out` unchanged.
Status ReadArguments(const std::string& given, const std::string& param, std::string* out) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t first = given.find_first_not_of(kBlanks);
  if (first == std::string::npos) return Status::Ok();
  *out = given.substr(first);
  if (ShapeOf(*out) == CallShape::kCut) return Status::Ok();
  out->resize(out->find_last_not_of(kBlanks) + 1);
  if (ShapeOf(*out) == CallShape::kWhole) return Status::Ok();
  return InvalidArgument("The arguments of a call are a JSON object, or the beginning of one that was cut.", param,
                         "invalid_value");
}

}  // namespace

Status AddTool(const ToolFields& fields, const std::string& param, const char* parameters_name, bool strict_default,
               ToolSet* out) {
  std::string own, description;
  RETURN_IF_ERROR(ReadName(fields.name, param + ".name", &own));
  std::string name = ModelToolName({.space = fields.space, .name = own, .custom = fields.custom});
  if (fields.description != nullptr) {
    RETURN_IF_ERROR(ReadString(*fields.description, param + ".description", &description));
  }
  bool strict = strict_default;
  if (fields.strict != nullptr) RETURN_IF_ERROR(ReadBool(*fields.strict, param + ".strict", &strict));
  if (fields.parameters != nullptr && !fields.parameters->is_object()) {
    return WrongType(*fields.parameters, param + "." + parameters_name, "an object");
  }
  if (std::ranges::count(out->names, name) > 0) {
    return InvalidArgument("There are two tools with the name '" + name + "'.", param + ".name", "invalid_value");
  }
  if (out->names.size() == static_cast<size_t>(limits::kMaxTools)) {
    return InvalidArgument("At most " + std::to_string(limits::kMaxTools) + " tools are allowed.", param,
                           "array_above_max_length");
  }
  JsonWriter text;
  text.Value(description);
  std::string line = R"({"type": "function", "function": {"name": ")" + name + '"';
  if (fields.description != nullptr) line += ", \"description\": " + text.text();
  if (fields.parameters != nullptr) line += ", \"parameters\": " + SpacedJson(*fields.parameters);
  line += "}}";
  if (out->lines.size() + line.size() > static_cast<size_t>(limits::kMaxGrammarTextBytes)) {
    return InvalidArgument(
        "All tools together have at most " + std::to_string(limits::kMaxGrammarTextBytes) + " bytes.", param,
        "string_above_max_length");
  }
  if (!out->lines.empty()) out->lines += '\n';
  out->lines += line;
  out->strict.push_back(strict);
  out->names.push_back(std::move(name));
  out->places.push_back(PlaceOf(param));
  return Status::Ok();
}

Status ReadTools(const JsonValue& value, const std::string& param, ToolShape shape, bool strict_default,
                 IgnoredFields* ignored, ToolSet* out) {
  if (!value.is_array()) return WrongType(value, param, "an array of tools");
  if (value.array().size() > static_cast<size_t>(limits::kMaxTools)) {
    return InvalidArgument("At most " + std::to_string(limits::kMaxTools) + " tools are allowed.", param,
                           "array_above_max_length");
  }
  out->schema_param = shape == ToolShape::kFlat ? ".parameters" : ".function.parameters";
  const ToolReading how{shape, strict_default, ignored, out};
  for (size_t i = 0; i < value.array().size(); ++i) {
    RETURN_IF_ERROR(ReadTool(value.array()[i], At(param, i), "", how));
  }
  return Status::Ok();
}

Status ReadToolChoice(const JsonValue& value, const std::string& param, ToolShape shape, ToolChoice* out) {
  using Mode = ToolChoice::Mode;
  if (value.is_string()) {
    const std::string& name = value.string();
    out->mode = name == "none" ? Mode::kNone : name == "required" ? Mode::kRequired : Mode::kAuto;
    if (name == "none" || name == "required" || name == "auto") return Status::Ok();
    return InvalidArgument("Invalid value: '" + name.substr(0, 256) +
                               "'. Supported values are: 'none', 'auto', 'required', and the choice of a function.",
                           param, "invalid_value");
  }
  if (!value.is_object()) return WrongType(value, param, "a string or an object");
  const JsonValue* type = value.Find("type");
  if (type != nullptr && type->is_string() && type->string() == "allowed_tools") {
    return ReadAllowed(value, param, shape, out);
  }
  RETURN_IF_ERROR(ReadNamed(value, param, shape, &out->names.emplace_back()));
  out->mode = Mode::kRequired;
  out->several = false;
  return Status::Ok();
}

Fields<TurnSpec> ToolRows(ToolShape shape, bool strict_default) {
  using Value = const JsonValue&;
  using Param = const std::string&;
  using Context = const FieldContext&;
  return {
      {"tools", FieldType::kArray,
       [shape, strict_default](Value value, Param param, Context context, TurnSpec* turn) {
         return ReadTools(value, param, shape, strict_default, context.ignored, &turn->tools.emplace());
       }},
      {"tool_choice", FieldType::kString | FieldType::kObject,
       [shape](Value value, Param param, Context, TurnSpec* turn) {
         return ReadToolChoice(value, param, shape, &turn->choice());
       }},
      {"parallel_tool_calls", FieldType::kBool,
       [](Value value, Param param, Context, TurnSpec* turn) {
         ToolChoice& choice = turn->choice();
         RETURN_IF_ERROR(ReadBool(value, param, &choice.parallel));
         choice.several &= choice.parallel;
         return Status::Ok();
       }},
  };
}

std::string ToolChoiceJson(const ToolChoice& choice) {
  using Mode = ToolChoice::Mode;
  const char* mode = choice.mode == Mode::kNone ? "none" : choice.mode == Mode::kRequired ? "required" : "auto";
  const auto write_function = [](JsonWriter& json, const std::string& name) {
    const ClientTool tool = ClientToolOf(name);
    json.BeginObject().Field("type", tool.custom ? "custom" : "function").Field("name", tool.name);
    if (!tool.space.empty()) json.Field("namespace", tool.space);
    json.EndObject();
  };
  JsonWriter json;
  if (choice.names.empty()) {
    json.Value(mode);
  } else if (choice.names.size() == 1 && choice.mode == Mode::kRequired && !choice.several) {
    write_function(json, choice.names.front());
  } else {
    json.BeginObject().Field("type", "allowed_tools").Field("mode", mode).Key("tools").BeginArray();
    for (const std::string& name : choice.names) write_function(json, name);
    json.EndArray().EndObject();
  }
  return json.Take();
}

Status ReadCallId(const JsonValue& value, const std::string& param, std::string* out) {
  RETURN_IF_ERROR(ReadString(value, param, out));
  const bool control = std::ranges::any_of(*out, [](char c) { return static_cast<unsigned char>(c) < ' '; });
  if (!out->empty() && out->size() <= static_cast<size_t>(limits::kMaxCallIdBytes) && !control) return Status::Ok();
  return InvalidArgument(
      "The id of a call has 1 to " + std::to_string(limits::kMaxCallIdBytes) + " bytes and no control characters.",
      param, "invalid_value");
}

bool EndsInCutCall(const NewItem& message) {
  return message.calls_at >= 0 && !message.text.ends_with(SyntaxOf(ToolSyntaxName::kHermes).after_arguments);
}

Status AddCall(const CallFields& fields, const std::string& param, const char* id_name, NewItem* message) {
  std::string name, space, call_id, text = "{}";
  RETURN_IF_ERROR(ReadName(fields.name, param + ".name", &name));
  if (fields.space != nullptr) RETURN_IF_ERROR(ReadName(fields.space, param + ".namespace", &space));
  const std::string at = param + (fields.custom ? ".input" : ".arguments");
  const JsonValue* const arguments = fields.arguments;
  if (fields.custom) {
    if (arguments == nullptr) return MissingParameter(at);
    if (!arguments->is_string()) return WrongType(*arguments, at, "a string");
    text = CustomArguments(arguments->string());
  } else if (arguments != nullptr && arguments->is_object()) {
    text = SpacedJson(*arguments);
  } else if (arguments != nullptr) {
    if (!arguments->is_string()) return WrongType(*arguments, at, "a JSON object as a string");
    RETURN_IF_ERROR(ReadArguments(arguments->string(), at, &text));
  }
  if (EndsInCutCall(*message)) {
    return InvalidArgument("The call before this one was cut: it must be the last one of its message.", param,
                           "invalid_value");
  }
  if (fields.id != nullptr) RETURN_IF_ERROR(ReadCallId(*fields.id, PlaceOf(param) + "." + id_name, &call_id));
  const std::string called = ModelToolName({.space = space, .name = name, .custom = fields.custom});
  AppendToolCall(called, text, &message->text, &message->calls_at);
  message->call_ids += call_id + '\n';
  return Status::Ok();
}

Status ReadFunctionCall(const JsonValue& item, const std::string& param, IgnoredFields* ignored, NewItem* message) {
  const JsonValue* const type = item.Find("type");
  CallFields fields{.custom = type != nullptr && type->string() == "custom_tool_call"};
  const std::string_view arguments = fields.custom ? "input" : "arguments";
  for (const auto& [key, value] : item.object()) {
    if (value.is_null() || key == "type" || key == "id" || key == "status" || key == "object" || key == "created_by") {
      continue;
    }
    if (key == "name") {
      fields.name = &value;
    } else if (key == arguments) {
      fields.arguments = &value;
    } else if (key == "call_id") {
      fields.id = &value;
    } else if (key == "namespace") {
      fields.space = &value;
    } else if (!IsEmpty(value)) {
      RETURN_IF_ERROR(ignored->Unknown(param + "." + key));
    }
  }
  if (fields.arguments == nullptr) return MissingParameter(param + "." + std::string(arguments));
  message->role = ChatRole::kAssistant;
  return AddCall(fields, param, "call_id", message);
}

Status ReadFunctionCallOutput(const JsonValue& item, const std::string& param, IgnoredFields* ignored, NewItem* out) {
  out->role = ChatRole::kTool;
  bool has_output = false;
  for (const auto& [key, value] : item.object()) {
    if (value.is_null() || key == "type" || key == "id" || key == "status" || key == "object" || key == "created_by" ||
        key == "name" || key == "namespace") {
      continue;
    }
    const std::string at = param + "." + key.substr(0, 256);
    if (key == "call_id") {
      RETURN_IF_ERROR(ReadCallId(value, at, &out->call_ids));
    } else if (key == "output") {
      RETURN_IF_ERROR(ReadContent(value, at, ignored, out));
      has_output = true;
    } else {
      RETURN_IF_ERROR(ignored->Unknown(at));
    }
  }
  if (out->call_ids.empty()) return MissingParameter(param + ".call_id");
  return has_output ? Status::Ok() : MissingParameter(param + ".output");
}

std::string ToolsEcho(const JsonValue& tools, bool strict_default) {
  JsonWriter json;
  json.BeginArray();
  for (const JsonValue& tool : tools.array()) {
    const JsonValue* type = tool.Find("type");
    if (type != nullptr && type->string() != "function") {
      const bool offered = type->string() == "custom" || type->string() == "namespace";
      if (offered) WriteJson(json, tool);
      continue;
    }
    json.BeginObject().Field("type", "function");
    for (const char* key : {"name", "description", "parameters"}) {
      const JsonValue* value = tool.Find(key);
      WriteJson(json.Key(key), value == nullptr ? JsonValue() : *value);
    }
    const JsonValue* strict = tool.Find("strict");
    json.Field("strict", strict == nullptr ? strict_default : strict->boolean()).EndObject();
  }
  return json.EndArray().Take();
}

}  // namespace ringside
