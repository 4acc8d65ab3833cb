// What the requests of /v1/chat/completions and /v1/completions have in common. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "session/table/session_table.h"
#include "ws/json/json_value.h"

namespace ringside {

struct CompletionFields {
  TurnSpec turn;
  int64_t choices = 1;
  bool stream = false;
  bool include_usage = false;  // in a stream
};

/// Reads a field, not null, that both faces have. False if it is none of them; kInvalidArgument, kNotFound with
/// `param`.
Result<bool> ReadCompletionField(const JsonValue& value, const std::string& param, const SessionTableOptions& options,
                                 CompletionFields* fields);

}  // namespace ringside
