// The form in which a request wants its answer, read from JSON: Responses' `text.format` and chat's `response_format`,
// which differ in one level of nesting, and our own two. Pure.
#pragma once

#include <string>

#include "base/status.h"
#include "engine/grammar/answer_format.h"
#include "ws/fields/ignored_fields.h"
#include "ws/json/json_value.h"

namespace ringside {

enum class FormatShape {
  kFlat,    // Responses: {"type": "json_schema", "name", "schema", "strict"?, "description"?}
  kNested,  // chat: {"type": "json_schema", "json_schema": {"name", "schema", "strict"?, "description"?}}
};

/// Besides these, in both: {"type": "text"}, {"type": "json_object"}, {"type": "regex", "regex"} and {"type":
/// "grammar", "grammar"} (GBNF). `param` is the wire's name of `value`. kInvalidArgument with the param of what is
/// wrong; whether the schema or grammar itself is, is found out when the turn begins.
Status ReadAnswerFormat(const JsonValue& value, const std::string& param, FormatShape shape, IgnoredFields* ignored,
                        AnswerFormat* out);
/// JSON of the flat shape that says the same.
std::string FormatObject(const AnswerFormat& format);

}  // namespace ringside
