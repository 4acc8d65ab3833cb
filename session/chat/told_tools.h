// Tools as a template tells them. Pure.
#pragma once

#include <string>
#include <string_view>

#include "engine/grammar/tools/tool_syntax.h"

namespace ringside {

/// The tools, a line of JSON each, as what stands between the syntax's words for them.
std::string ToldTools(std::string_view lines, const ToolSyntax& syntax);

}  // namespace ringside
