// The fields of a request that say how to choose tokens and when to stop, by chat's names. Ranges that depend on the
// model are checked by SamplingParams::Validate. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "session/table/session_table.h"
#include "ws/json/json_value.h"

namespace ringside {

bool IsSamplingField(std::string_view key);
std::vector<std::string> SamplingFields();
/// Reads one, not null, into `spec`. kInvalidArgument with `param`.
Status ReadSamplingField(const JsonValue& value, const std::string& param, TurnSpec* spec);

/// After all fields of `body` have been read: makes the sampling that of beams, if it has some. kInvalidArgument,
/// naming it, for a field that means nothing with beams, or without.
Status CheckBeamFields(const JsonValue& body, TurnSpec* spec);

}  // namespace ringside
