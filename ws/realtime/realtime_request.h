// The `response` of a Realtime response.create, checked field by field. Pure.
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

/// `response` null: as {}. What it leaves out is the session's. kInvalidArgument with `param`.
Result<RealtimeRequest> ReadRealtimeRequest(const JsonValue* response, const RealtimeSettings& settings,
                                            const SessionTableOptions& options);

}  // namespace ringside
