// Tool calls in a model's own syntax, for chat templates that do not write calls. Pure; any thread.
#pragma once

#include <span>
#include <string>

#include "engine/grammar/tools/tool_syntax.h"
#include "session/chat/json_value.h"
#include "session/tools/tool_calls.h"

namespace ringside {

/// REQUIRES: arguments of `syntax` are JSON or Python's, and calls have no ids. `change` is done to names and
/// arguments.
std::string WriteCalls(const ToolSyntax& syntax, std::span<const ToolCall> calls, const TextChange& change);

}  // namespace ringside
