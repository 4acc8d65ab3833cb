// Determines the tool syntax that a model's chat template writes, by rendering a conversation with calls and parsing
// them back.
#pragma once

#include <optional>

#include "engine/grammar/tools/tool_syntax.h"
#include "session/chat/templates/template_run.h"

namespace ringside {

struct LearnedCalls {
  ToolSyntaxName syntax = ToolSyntaxName::kHermes;
  CallForm form = {};  // in which the template takes calls
  friend bool operator==(const LearnedCalls&, const LearnedCalls&) = default;
};

/// The first syntax that reads all calls as they were given; of a template that writes tools and drops calls, the
/// syntax that its special tokens belong to. Nothing if there is none, or the template ignores tools.
std::optional<LearnedCalls> LearnCalls(const TemplateRun& run);

}  // namespace ringside
