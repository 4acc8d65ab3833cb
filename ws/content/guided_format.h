// The answer formats of vLLM's and llama-server's clients. Pure.
#pragma once

#include <optional>

#include "engine/grammar/answer_format.h"
#include "ws/fields/field_table.h"

namespace ringside {

/// Fields "structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar", "guided_json_object",
/// "json_schema" and "grammar". A grammar is GBNF, or Lark if LarkToRegex supports it; empty values have no effect.
/// ERRORS: mutually_exclusive_parameters for a second format.
const Fields<std::optional<AnswerFormat>>& GuidedFields();

}  // namespace ringside
