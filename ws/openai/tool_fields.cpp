#include "ws/openai/tool_fields.h"

#include <algorithm>

#include "base/limits.h"
#include "engine/grammar/tools/tool_calls.h"
#include "session/tools/tool_calls.h"
#include "ws/json/json_text.h"
#include "ws/json/json_writer.h"
#include "ws/openai/responses/responses_fields.h"

namespace ringside {
namespace {

std::string At(const std::string& param, size_t index) { return param + "[" + std::to_string(index) + "]"; }

Status ReadName(const JsonValue* value, const std::string& param, std::string* out) {
  if (value == nullptr) return MissingParameter(param);
  RETURN_IF_ERROR(ReadString(*value, param, out));
  if (IsToolName(*out)) return Status::Ok();
  return InvalidArgument("A function's name has 1 to 64 of the characters A-Z a-z 0-9 _ -", param, "invalid_value");
}

/// A function's fields, which are those of one object.
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

Status CheckFunctionType(const JsonValue& value, const std::string& param, bool required) {
  const JsonValue* type = value.Find("type");
  if (type == nullptr) return required ? MissingParameter(param + ".type") : Status::Ok();
  if (!type->is_string()) return WrongType(*type, param + ".type", "a string");
  if (type->string() == "function") return Status::Ok();
  return Unsupported(param + ".type", "tools of type '" + type->string().substr(0, 64) + "'");
}

/// The function that {"type": "function", ...} names.
Status ReadNamed(const JsonValue& value, const std::string& param, ToolShape shape, std::string* name) {
  if (!value.is_object()) return WrongType(value, param, "an object");
  RETURN_IF_ERROR(CheckFunctionType(value, param, true));
  const JsonValue* holder = &value;
  std::string at = param;
  if (shape == ToolShape::kNested) {
    holder = value.Find("function");
    at += ".function";
    if (holder == nullptr) return MissingParameter(at);
    if (!holder->is_object()) return WrongType(*holder, at, "an object");
  }
  return ReadName(holder->Find("name"), at + ".name", name);
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
    return InvalidArgument("Too many tools are named.", at + ".tools", "array_above_max_length");
  }
  for (size_t i = 0; i < tools->array().size(); ++i) {
    RETURN_IF_ERROR(ReadNamed(tools->array()[i], At(at + ".tools", i), shape, &out->names.emplace_back()));
  }
  return Status::Ok();
}

enum class CallShape { kWhole, kCut, kNone };

/// What a reader makes of these arguments: it looks at their strings and brackets only.
CallShape ShapeOf(std::string_view arguments) {
  std::string text;
  int64_t calls_at = -1;
  AppendToolCall("f", arguments, &text, &calls_at);
  const std::vector<ToolCall> calls = ReadToolCalls(text);
  if (calls.size() != 1 || calls[0].arguments != arguments) return CallShape::kNone;
  return calls[0].complete ? CallShape::kWhole : CallShape::kCut;
}

/// Byte for byte: they may be what the model has written. Of blanks around them nothing is kept, unless they were cut,
/// in a string perhaps. Nothing but blanks leaves `out` as it is.
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
  std::string name, description;
  RETURN_IF_ERROR(ReadName(fields.name, param + ".name", &name));
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
  for (size_t i = 0; i < value.array().size(); ++i) {
    const JsonValue& tool = value.array()[i];
    std::string at = At(param, i);
    if (!tool.is_object()) return WrongType(tool, at, "an object");
    RETURN_IF_ERROR(CheckFunctionType(tool, at, false));
    const JsonValue* function = &tool;
    if (shape == ToolShape::kNested) {
      for (const auto& [key, field] : tool.object()) {
        if (key == "type" || key == "function" || field.is_null()) continue;
        RETURN_IF_ERROR(ignored->Unknown(at + "." + key));
      }
      function = tool.Find("function");
      at += ".function";
      if (function == nullptr) return MissingParameter(at);
      if (!function->is_object()) return WrongType(*function, at, "an object");
    }
    ToolFields fields;
    RETURN_IF_ERROR(ReadFunction(*function, at, shape == ToolShape::kFlat, ignored, &fields));
    RETURN_IF_ERROR(AddTool(fields, at, "parameters", strict_default, out));
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

std::string ToolChoiceJson(const ToolChoice& choice) {
  using Mode = ToolChoice::Mode;
  const char* mode = choice.mode == Mode::kNone ? "none" : choice.mode == Mode::kRequired ? "required" : "auto";
  const auto write_function = [](JsonWriter& json, const std::string& name) {
    json.BeginObject().Field("type", "function").Field("name", name).EndObject();
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
  return message.calls_at >= 0 && !message.text.ends_with(SyntaxOf(ToolSyntaxName::kHermes).behind_arguments);
}

Status AddCall(const JsonValue* name, const JsonValue* arguments, const JsonValue* id, const std::string& param,
               const char* id_name, NewItem* message) {
  std::string function, call_id, text = "{}";
  RETURN_IF_ERROR(ReadName(name, param + ".name", &function));
  const std::string at = param + ".arguments";
  if (arguments != nullptr && arguments->is_object()) {
    text = SpacedJson(*arguments);
  } else if (arguments != nullptr) {
    if (!arguments->is_string()) return WrongType(*arguments, at, "a JSON object as a string");
    RETURN_IF_ERROR(ReadArguments(arguments->string(), at, &text));
  }
  if (EndsInCutCall(*message)) {
    return InvalidArgument("The call before this one was cut: it must be the last one of its message.", param,
                           "invalid_value");
  }
  if (id != nullptr)
    RETURN_IF_ERROR(ReadCallId(*id, param.substr(0, param.rfind(".function")) + "." + id_name, &call_id));
  AppendToolCall(function, text, &message->text, &message->calls_at);
  message->call_ids += call_id + '\n';
  return Status::Ok();
}

Status ReadFunctionCall(const JsonValue& item, const std::string& param, IgnoredFields* ignored, NewItem* message) {
  const JsonValue *name = nullptr, *arguments = nullptr, *call_id = nullptr;
  for (const auto& [key, value] : item.object()) {
    if (value.is_null() || key == "type" || key == "id" || key == "status" || key == "object" || key == "created_by") {
      continue;
    }
    if (key == "name") {
      name = &value;
    } else if (key == "arguments") {
      arguments = &value;
    } else if (key == "call_id") {
      call_id = &value;
    } else if (!IsEmpty(value)) {
      RETURN_IF_ERROR(ignored->Unknown(param + "." + key));
    }
  }
  if (arguments == nullptr) return MissingParameter(param + ".arguments");
  message->role = ChatRole::kAssistant;
  return AddCall(name, arguments, call_id, param, "call_id", message);
}

Status ReadFunctionCallOutput(const JsonValue& item, const std::string& param, IgnoredFields* ignored, NewItem* out) {
  out->role = ChatRole::kTool;
  bool has_output = false;
  for (const auto& [key, value] : item.object()) {
    if (value.is_null() || key == "type" || key == "id" || key == "status" || key == "object" || key == "created_by" ||
        key == "name") {
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
