// The field `context_management` of Anthropic's API, {"edits": [...]}, and what is reported of the edits that were
// made. Pure functions, any thread.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "session/turn/context_edits.h"
#include "ws/fields/ignored_fields.h"
#include "ws/json/json_value.h"
#include "ws/json/json_writer.h"

namespace ringside {

/// Each type of edit at most once. An edit of an unknown type is a hint that is not followed. ERRORS: kInvalidArgument.
Status ReadContextEdits(const JsonValue& value, const std::string& param, IgnoredFields* ignored,
                        std::vector<ContextEdit>* out);
/// The member `context_management`: {"applied_edits": [...]}.
void WriteAppliedEdits(JsonWriter& json, const std::vector<ContextEdit>& edits,
                       const std::vector<AppliedEdit>& applied);

}  // namespace ringside
