// A Realtime response.create, read by its table. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "session/table/session_table.h"
#include "ws/json/json_value.h"
#include "ws/realtime/realtime_settings.h"

namespace ringside {

/// A message, or the id of one of the conversation.
struct RealtimeInput {
  std::string reference;  // "" = `item`
  NewItem item;
};

struct RealtimeRequest {
  bool in_conversation = true;                      // the answer becomes part of the conversation
  std::optional<std::vector<RealtimeInput>> input;  // absent = the conversation
  std::string max_output_tokens;                    // as JSON, for the response object
  std::string metadata = "null";                    // likewise
  std::vector<std::string> ignored;                 // fields without effect, which the response object reports
  TurnSpec spec;                                    // without conversation and input
};

/// `event`: a response.create. What its `response` leaves out is the session's. ERRORS: kInvalidArgument with `param`.
Result<RealtimeRequest> ReadRealtimeRequest(const JsonValue& event, const RealtimeSettings& settings,
                                            const SessionTableOptions& options);
RequestKind RealtimeCreateKind();

}  // namespace ringside
