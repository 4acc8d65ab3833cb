// Parses tools, tool choices, calls and results: OpenAI's two shapes, and the parts shared by other protocols. Pure.
// ERRORS: with the `param` of the faulty field.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "session/turn/turn_spec.h"
#include "ws/fields/field_table.h"
#include "ws/json/json_value.h"

namespace ringside {

enum class ToolShape {
  kFlat,    // Responses, Realtime: {"type": "function", "name", "description"?, "parameters"?, "strict"?}
  kNested,  // chat, Ollama: {"type": "function", "function": {"name", "description"?, "parameters"?, "strict"?}}
};

/// A list of functions, custom tools and, in the flat shape, namespaces of functions: at most limits::kMaxTools in
/// total. Hosted tools are ignored. Schemas are checked when the turn starts. `strict_default`: for functions without
/// `strict`.
Status ReadTools(const JsonValue& value, const std::string& param, ToolShape shape, bool strict_default,
                 IgnoredFields* ignored, ToolSet* out);

/// The fields "tools", "tool_choice" and "parallel_tool_calls" in this shape.
Fields<TurnSpec> ToolRows(ToolShape shape, bool strict_default);

/// Fields of one function; null where absent.
struct ToolFields {
  const JsonValue *name = nullptr, *description = nullptr, *parameters = nullptr, *strict = nullptr;
  std::string_view space = {};  // its namespace
  bool custom = false;          // a custom tool's
};
/// Adds a function. `param`: path of the fields; `parameters_name`: the protocol's name of `parameters`.
Status AddTool(const ToolFields& fields, const std::string& param, const char* parameters_name, bool strict_default,
               ToolSet* out);

/// Parses "auto", "none", "required", a tool's name, or {"type": "allowed_tools", ...}.
Status ReadToolChoice(const JsonValue& value, const std::string& param, ToolShape shape, ToolChoice* out);
/// The equivalent JSON in the flat shape.
std::string ToolChoiceJson(const ToolChoice& choice);

/// Fields of a call; null where absent.
struct CallFields {
  const JsonValue *name = nullptr, *arguments = nullptr, *id = nullptr, *space = nullptr;
  bool custom = false;  // of a custom tool: `arguments` is its input text
};
/// Adds a call to the assistant's message that made it. `arguments` is an object, or its text, which may be a prefix:
/// the call was then cut. Null = no members. `id` may be null.
/// REQUIRES: no call of the message was cut.
Status AddCall(const CallFields& fields, const std::string& param, const char* id_name, NewItem* message);
/// True if the last call added by AddCall was cut: another call then needs a new message.
bool EndsInCutCall(const NewItem& message);
/// Parses the id of the call that `out` is the result of.
Status ReadCallId(const JsonValue& value, const std::string& param, std::string* out);

/// Parses Responses' item of type function_call or custom_tool_call and adds it to `message`, the model's.
Status ReadFunctionCall(const JsonValue& item, const std::string& param, IgnoredFields* ignored, NewItem* message);
/// Parses Responses' item of type function_call_output or custom_tool_call_output.
Status ReadFunctionCallOutput(const JsonValue& item, const std::string& param, IgnoredFields* ignored, NewItem* out);

/// The tools as the response repeats them, JSON.
std::string ToolsEcho(const JsonValue& tools, bool strict_default);

}  // namespace ringside
