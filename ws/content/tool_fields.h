// Tools, which of them to call, calls and what they gave, read from JSON: OpenAI's two shapes, and what the other faces
// share with them. Pure; errors have the `param` of what is wrong.
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

/// A list of functions, custom tools and, in the flat shape, namespaces of functions: at most limits::kMaxTools in all.
/// Tools of other types are run by other servers: they are ignored. Whether the functions' schemas can be followed is
/// found out when the turn begins. `strict_default`: what a function that does not say it is.
Status ReadTools(const JsonValue& value, const std::string& param, ToolShape shape, bool strict_default,
                 IgnoredFields* ignored, ToolSet* out);

/// "tools", "tool_choice" and "parallel_tool_calls" in this shape.
Fields<TurnSpec> ToolRows(ToolShape shape, bool strict_default);

/// One function more: its fields, null where they are absent.
struct ToolFields {
  const JsonValue *name = nullptr, *description = nullptr, *parameters = nullptr, *strict = nullptr;
  std::string_view space = {};  // its namespace
  bool custom = false;          // it is a custom tool's
};
/// `param` is that of the fields, `parameters_name` the wire's name of `parameters`.
Status AddTool(const ToolFields& fields, const std::string& param, const char* parameters_name, bool strict_default,
               ToolSet* out);

/// "auto", "none", "required", a tool by its name, or {"type": "allowed_tools", ...}.
Status ReadToolChoice(const JsonValue& value, const std::string& param, ToolShape shape, ToolChoice* out);
/// JSON of the flat shape that says the same.
std::string ToolChoiceJson(const ToolChoice& choice);

/// A call's fields, null where they are absent.
struct CallFields {
  const JsonValue *name = nullptr, *arguments = nullptr, *id = nullptr, *space = nullptr;
  bool custom = false;  // of a custom tool: `arguments` is its input, a text
};
/// Adds a call that the model is said to have made to its message, none of whose calls was cut. `arguments` is an
/// object, or one as text, which may be the beginning of one: then the call was cut. Null is one without members. `id`
/// may be null.
Status AddCall(const CallFields& fields, const std::string& param, const char* id_name, NewItem* message);
/// Whether the last call that AddCall has added to it was cut: another one needs a message of its own.
bool EndsInCutCall(const NewItem& message);
/// The id of a call that `out` is the result of.
Status ReadCallId(const JsonValue& value, const std::string& param, std::string* out);

/// Responses' item of type function_call or custom_tool_call: added to `message`, the model's.
Status ReadFunctionCall(const JsonValue& item, const std::string& param, IgnoredFields* ignored, NewItem* message);
/// Responses' item of type function_call_output or custom_tool_call_output.
Status ReadFunctionCallOutput(const JsonValue& item, const std::string& param, IgnoredFields* ignored, NewItem* out);

/// The tools as the wire repeats them, JSON.
std::string ToolsEcho(const JsonValue& tools, bool strict_default);

}  // namespace ringside
