// The rows for sampling and for the end of the answer, by chat's names. SamplingParams::Validate checks ranges, which
// depend on the model. Pure.
#pragma once

#include <string>

#include "base/status.h"
#include "session/session_options.h"
#include "session/turn/turn_spec.h"
#include "ws/fields/field_table.h"
#include "ws/json/json_value.h"

namespace ringside {

/// Every sampling field but the length of the answer.
const Fields<TurnSpec>& SamplingFields();

/// TurnSpec::max_output_tokens of a request that asks for no limit.
inline constexpr int64_t kNoOutputLimit = INT64_MAX;
/// The row of the longest answer: at least `least` tokens, or -1 for no limit. ClampOutput applies the server's.
Field<TurnSpec> OutputTokensField(std::string name, int64_t least = 1);
/// After all fields have been read: an answer is as long as the server's limit allows, and `param` is reported where
/// more was asked for. Nothing if strict: the turn is refused then.
void ClampOutput(const SessionTableOptions& options, const std::string& param, TurnSpec* spec, IgnoredFields* ignored);

/// After all fields of `body` have been read: makes the sampling that of beams, if it has some. kInvalidArgument,
/// naming it, for a field that means nothing with beams, or without.
Status CheckBeamFields(const JsonValue& body, TurnSpec* spec);

}  // namespace ringside
