// Parses messages and tools of Anthropic's requests; content may include tool calls and results. Pure.
// ERRORS: with the `param` of the faulty field.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "session/turn/turn_spec.h"
#include "ws/fields/ignored_fields.h"
#include "ws/json/json_value.h"

namespace ringside {

/// A message with several blocks may become several items: each tool result is one.
Status ReadAnthropicMessages(const JsonValue& value, const std::string& param, IgnoredFields* ignored,
                             std::vector<NewItem>* out);
/// Parses the text of a string or of text blocks: the system prompt.
Status ReadAnthropicText(const JsonValue& value, const std::string& param, IgnoredFields* ignored, NewItem* out);
/// [{"name", "description"?, "input_schema", "strict"?}, ...]
Status ReadAnthropicTools(const JsonValue& value, const std::string& param, IgnoredFields* ignored, ToolSet* out);
/// {"type": "auto" | "any" | "none" | "tool", "name"?, "disable_parallel_tool_use"?}
Status ReadAnthropicToolChoice(const JsonValue& value, const std::string& param, IgnoredFields* ignored,
                               ToolChoice* out);

}  // namespace ringside
