// Tool calls in a model's own syntax, for chat templates that do not write calls. Pure; any thread.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "engine/grammar/tools/tool_syntax.h"
#include "session/tools/tool_calls.h"

namespace ringside {

/// REQUIRES: arguments of `syntax` are JSON or Python's, and calls have no ids. `change` is applied to names and
/// arguments; null: none.
std::string WriteCalls(const ToolSyntax& syntax, std::span<const ToolCall> calls,
                       const std::function<std::string(std::string_view)>& change);

}  // namespace ringside
