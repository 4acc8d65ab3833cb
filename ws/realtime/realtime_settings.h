// Settings of a Realtime session for all its responses, and the fields common to sessions and responses. Pure.
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
  std::string id;                                // "sess_..."
  std::string conversation;                      // "conv_..."
  const SessionTableOptions* options = nullptr;  // of the session's model
  std::optional<std::string> adapter;            // adapter named by `model`; "" = none; absent = the conversation's
  std::optional<std::string> instructions;       // absent = the conversation's
  std::optional<int64_t> max_output_tokens;      // absent = "inf": the server's limit
  std::optional<std::string> tools;              // JSON in Responses' form; absent = the conversation's
  std::string tool_choice = "\"auto\"";          // JSON
  std::optional<bool> parallel_tool_calls;
  std::map<std::string, std::string> sampling;  // including reasoning; JSON by field
  bool truncates = true;
  std::string truncation = "\"auto\"";    // JSON
  std::optional<WindowOverrides> window;  // requested by `truncation`; absent = the conversation's
  std::vector<std::string> ignored;       // ignored fields of the last update
};

/// Applies the fields present; `ignored` receives fields without effect on text and unknown ones.
/// ERRORS: kInvalidArgument with `param`; nothing changes then.
Status UpdateSettings(const JsonValue& session, const SessionTableOptions& options, RealtimeSettings* settings);
/// The session object as JSON, without id and conversation if the session does not exist yet.
std::string SettingsObject(const RealtimeSettings& settings, const SessionTableOptions& options);

/// Checks functions in Responses' form, not strict; returns their JSON for a Responses request.
Result<std::string> ReadRealtimeTools(const JsonValue& value, const std::string& param, IgnoredFields* ignored);
/// The fields common to sessions and responses.
const Fields<RealtimeSettings>& RealtimeFormRows();
/// The fields of a session object.
const FieldTable<RealtimeSettings>& SettingsTable();

}  // namespace ringside
