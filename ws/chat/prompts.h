// Prompts without a chat template, as OpenAI's faces spell them. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "session/turn/turn_spec.h"
#include "ws/json/json_value.h"

namespace ringside {

/// A string, an array of token ids, or an array of at most `most` of either, appended. kInvalidArgument with `param`.
Status ReadPrompts(const JsonValue& value, const std::string& param, int64_t most, std::vector<RawPrompt>* out);

}  // namespace ringside
