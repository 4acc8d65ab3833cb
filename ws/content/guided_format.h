// The form of an answer as clients of vLLM and llama-server ask for it. Pure.
#pragma once

#include <optional>

#include "engine/grammar/answer_format.h"
#include "ws/fields/field_table.h"

namespace ringside {

/// The rows of "structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar",
/// "guided_json_object", "json_schema" and "grammar". A grammar is GBNF, or Lark where LarkToRegex takes it; an empty
/// value asks for nothing. ERRORS: a second form is mutually_exclusive_parameters.
const Fields<std::optional<AnswerFormat>>& GuidedFields();

}  // namespace ringside
