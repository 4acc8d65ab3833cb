// JSON as what a template computes with.
#pragma once

#include <string_view>

#include "base/status.h"
#include "session/chat/jinja/value.h"

namespace ringside {

/// kInvalidArgument for what is no JSON or is nested too deeply. Integers beyond 64 bits become floats.
Result<jinja::Value> ValueOfJson(std::string_view json);

}  // namespace ringside
