// Parses the requested form of an answer: Responses' `text.format` and chat's `response_format`, which differ in one
// level of nesting, and two extensions. Pure.
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

/// Also accepts, in both shapes: {"type": "text"}, {"type": "json_object"}, {"type": "regex", "regex"} and {"type":
/// "grammar", "grammar"} (GBNF). `param`: the protocol's name of `value`. The schema or grammar itself is checked when
/// the turn starts.
/// ERRORS: kInvalidArgument with the faulty field's `param`.
Status ReadAnswerFormat(const JsonValue& value, const std::string& param, FormatShape shape, IgnoredFields* ignored,
                        AnswerFormat* out);
/// The equivalent JSON in the flat shape.
std::string FormatObject(const AnswerFormat& format);

}  // namespace ringside
