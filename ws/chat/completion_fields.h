// What the requests of /v1/chat/completions and /v1/completions have in common. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "session/table/session_table.h"
#include "ws/fields/ignored_fields.h"
#include "ws/json/json_value.h"

namespace ringside {

struct CompletionFields {
  IgnoredFields ignored;
  TurnSpec turn;
  int64_t choices = 1;
  bool stream = false;
  bool include_usage = false;  // in a stream
};

/// Reads a field, not null, that both faces have; ignores and reports any other. kInvalidArgument, kNotFound with
/// `param`.
Status ReadCompletionField(const JsonValue& value, const std::string& param, const SessionTableOptions& options,
                           CompletionFields* fields);

}  // namespace ringside
