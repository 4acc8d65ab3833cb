// The fields of a request that say how to choose tokens and when to stop, by chat's names. Ranges that depend on the
// model are checked by SamplingParams::Validate. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "session/table/session_table.h"
#include "ws/fields/ignored_fields.h"
#include "ws/json/json_value.h"

namespace ringside {

bool IsSamplingField(std::string_view key);
std::vector<std::string> SamplingFields();
/// Reads one, not null, into `spec`. kInvalidArgument with `param`.
Status ReadSamplingField(const JsonValue& value, const std::string& param, TurnSpec* spec);

/// TurnSpec::max_output_tokens of a request that asks for no limit.
inline constexpr int64_t kNoOutputLimit = INT64_MAX;
/// The longest answer that is asked for: at least `least` tokens, or -1 for no limit.
Status ReadOutputTokens(const JsonValue& value, const std::string& param, int64_t least, TurnSpec* spec);
/// After all fields have been read: an answer is as long as the server's limit allows, and `param` is reported where
/// more was asked for. Nothing if strict: the turn is refused then.
void ClampOutput(const SessionTableOptions& options, const std::string& param, TurnSpec* spec, IgnoredFields* ignored);

/// After all fields of `body` have been read: makes the sampling that of beams, if it has some. kInvalidArgument,
/// naming it, for a field that means nothing with beams, or without.
Status CheckBeamFields(const JsonValue& body, TurnSpec* spec);

}  // namespace ringside
