// Parses a Realtime response.create by its field table. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "session/table/session_table.h"
#include "ws/json/json_value.h"
#include "ws/realtime/realtime_settings.h"

namespace ringside {

/// A message, or the id of an item of the conversation.
struct RealtimeInput {
  std::string reference;  // "" = `item`
  NewItem item;
};

struct RealtimeRequest {
  bool in_conversation = true;                      // the answer is added to the conversation
  std::optional<std::vector<RealtimeInput>> input;  // absent = the conversation
  std::string max_output_tokens;                    // JSON, for the response object
  std::string metadata = "null";                    // JSON, for the response object
  std::vector<std::string> ignored;                 // ignored fields, reported in the response object
  TurnSpec spec;                                    // without conversation and input
};

/// `event`: a response.create. Fields missing in its `response` take the session's values.
/// ERRORS: kInvalidArgument with `param`.
Result<RealtimeRequest> ReadRealtimeRequest(const JsonValue& event, const RealtimeSettings& settings,
                                            const SessionTableOptions& options);
RequestKind RealtimeCreateKind();

}  // namespace ringside
