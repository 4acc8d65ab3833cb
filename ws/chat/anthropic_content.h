// The messages of an Anthropic-style request, whose content may hold tool calls and what they gave, and its tools.
// Pure; errors have the `param` of what is wrong.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "session/turn/turn_spec.h"
#include "ws/fields/ignored_fields.h"
#include "ws/json/json_value.h"

namespace ringside {

/// A message with several blocks may be several items: what each tool gave is one of its own.
Status ReadAnthropicMessages(const JsonValue& value, const std::string& param, IgnoredFields* ignored,
                             std::vector<NewItem>* out);
/// The text of a string or of text blocks: the system prompt.
Status ReadAnthropicText(const JsonValue& value, const std::string& param, IgnoredFields* ignored, NewItem* out);
/// [{"name", "description"?, "input_schema", "strict"?}, ...]
Status ReadAnthropicTools(const JsonValue& value, const std::string& param, IgnoredFields* ignored, ToolSet* out);
/// {"type": "auto" | "any" | "none" | "tool", "name"?, "disable_parallel_tool_use"?}
Status ReadAnthropicToolChoice(const JsonValue& value, const std::string& param, IgnoredFields* ignored,
                               ToolChoice* out);

}  // namespace ringside
