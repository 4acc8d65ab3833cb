// Converts JSON to template values.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "session/chat/jinja/value.h"

namespace ringside {

/// Transformation of each string before a template reads it; null: none.
using TextChange = std::function<std::string(std::string_view)>;

/// JSON as templates write it: a blank after each comma and colon, no needless escapes. Other text is returned as
/// given.
std::string ToJsonText(std::string_view json);

/// Parses JSON. Integers beyond 64 bits become floats. `change` is applied to every string, including keys.
/// ERRORS: kInvalidArgument for invalid or too deeply nested JSON.
Result<jinja::Value> ValueOfJson(std::string_view json, const TextChange& change = nullptr);

}  // namespace ringside
