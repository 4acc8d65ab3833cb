// Tool definitions in a template's syntax. Pure.
#pragma once

#include <string>
#include <string_view>

#include "engine/grammar/tools/tool_syntax.h"

namespace ringside {

/// Formats the tools, one line of JSON each, for the place between the syntax's delimiters.
std::string FormatTools(std::string_view lines, const ToolSyntax& syntax);

}  // namespace ringside
