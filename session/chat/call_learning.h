// Which tool syntax a model's chat template writes, found by rendering a conversation with calls and reading them back.
#pragma once

#include <optional>

#include "engine/grammar/tools/tool_syntax.h"
#include "session/chat/template_run.h"

namespace ringside {

struct LearnedCalls {
  ToolSyntaxName syntax = ToolSyntaxName::kHermes;
  bool text_arguments = false;  // the template takes arguments as JSON text only (TemplateRun::set_text_arguments)
  friend bool operator==(const LearnedCalls&, const LearnedCalls&) = default;
};

/// The first syntax that reads all calls as they were given; nothing if none does, or the template ignores tools.
std::optional<LearnedCalls> LearnCalls(const TemplateRun& run);

}  // namespace ringside
