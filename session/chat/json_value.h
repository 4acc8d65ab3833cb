// JSON as what a template computes with.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "session/chat/jinja/value.h"

namespace ringside {

/// What becomes of a text before a template reads it; null: nothing.
using TextChange = std::function<std::string(std::string_view)>;

/// JSON as templates write it: a blank after each comma and colon, no needless escapes. Other text is returned as
/// given.
std::string ToJsonText(std::string_view json);

/// kInvalidArgument for what is no JSON or is nested too deeply. Integers beyond 64 bits become floats. `change` is
/// done to every string, keys among them.
Result<jinja::Value> ValueOfJson(std::string_view json, const TextChange& change = nullptr);

}  // namespace ringside
