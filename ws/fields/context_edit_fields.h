// The field `context_management` of Anthropic's API, {"edits": [...]}, and the report of applied edits. Pure functions,
// any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "session/turn/context_edits.h"
#include "ws/fields/ignored_fields.h"
#include "ws/json/json_value.h"
#include "ws/json/json_writer.h"

namespace ringside {

/// The edit compact_20260112.
struct CompactionEdit {
  int64_t trigger = 150'000;  // input tokens above which the history is compacted
  std::string instructions;   // replace the default question for a summary
  bool pauses = false;        // the answer consists of the compaction
};

struct ContextEditFields {
  std::vector<ContextEdit> edits;
  std::optional<CompactionEdit> compaction;
};

/// Each type of edit at most once. Unknown types are ignored hints.
/// ERRORS: kInvalidArgument.
Status ReadContextEdits(const JsonValue& value, const std::string& param, IgnoredFields* ignored,
                        ContextEditFields* out);
/// The member `context_management`: {"applied_edits": [...]}.
void WriteAppliedEdits(JsonWriter& json, const std::vector<ContextEdit>& edits,
                       const std::vector<AppliedEdit>& applied);

}  // namespace ringside
