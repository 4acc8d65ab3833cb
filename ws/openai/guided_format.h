// The form of an answer as clients of vLLM and llama-server ask for it. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engine/grammar/answer_format.h"
#include "ws/fields/ignored_fields.h"
#include "ws/json/json_value.h"

namespace ringside {

/// "structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar", "json_schema", "grammar".
bool IsGuidedField(std::string_view key);
/// Reads one, not null. A grammar is GBNF, or Lark where LarkToRegex takes it. kInvalidArgument with `param`; a second
/// form beside `out` is mutually_exclusive_parameters.
Status ReadGuidedField(const JsonValue& value, const std::string& param, IgnoredFields* ignored,
                       std::optional<AnswerFormat>* out);

}  // namespace ringside
