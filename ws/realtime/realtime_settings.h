// What a Realtime session says once for all its responses, and the fields that sessions and responses have alike. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "session/session_options.h"
#include "session/turn/turn_spec.h"
#include "ws/fields/field_table.h"
#include "ws/json/json_value.h"

namespace ringside {

struct RealtimeSettings {
  std::string id;                            // "sess_..."
  std::string conversation;                  // "conv_..."
  std::optional<std::string> adapter;        // that `model` names; "" = none; absent = the conversation's
  std::optional<std::string> instructions;   // absent = the conversation's own
  std::optional<int64_t> max_output_tokens;  // absent = "inf": as many as the server gives
  std::optional<std::string> tools;          // as Responses has them, JSON; absent = the conversation's own
  std::string tool_choice = "\"auto\"";      // JSON
  std::optional<bool> parallel_tool_calls;
  std::map<std::string, std::string> sampling;  // and reasoning, by field, JSON
  bool truncates = true;
  std::string truncation = "\"auto\"";    // JSON
  std::optional<WindowOverrides> window;  // that `truncation` asks for; absent = as the conversation has it
  std::vector<std::string> ignored;       // fields of the last update that have no effect here
};

/// Takes over the fields that are there; those that have no effect on text and those that no reader knows are listed in
/// `ignored`. kInvalidArgument with `param`, and nothing has changed.
Status UpdateSettings(const JsonValue& session, const SessionTableOptions& options, RealtimeSettings* settings);
/// The session object, as JSON. Of one that is still to come it has neither id nor conversation.
std::string SettingsObject(const RealtimeSettings& settings, const SessionTableOptions& options);

/// Checks functions, in Responses' shape, not strict: their JSON, for a Responses request.
Result<std::string> ReadRealtimeTools(const JsonValue& value, const std::string& param, IgnoredFields* ignored);
/// The rows that sessions and responses have alike.
const Fields<RealtimeSettings>& RealtimeFormRows();
/// The members of a session object.
const FieldTable<RealtimeSettings>& SettingsTable();

}  // namespace ringside
