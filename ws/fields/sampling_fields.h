// Fields for sampling and for the end of an answer, under chat's names. SamplingParams::Validate checks ranges that
// depend on the model. Pure.
#pragma once

#include <string>

#include "base/status.h"
#include "session/session_options.h"
#include "session/turn/turn_spec.h"
#include "ws/fields/field_table.h"
#include "ws/json/json_value.h"

namespace ringside {

/// All sampling fields except the answer's length.
const Fields<TurnSpec>& SamplingFields();

/// TurnSpec::max_output_tokens of a request without a limit.
inline constexpr int64_t kNoOutputLimit = INT64_MAX;
/// The answer's limit: at least `least` tokens, or -1 for no limit. ClampOutput applies the server's.
Field<TurnSpec> OutputTokensField(std::string name, int64_t least = 1);
/// To be called after all fields: clamps the answer's limit to the server's, and reports `param` if it was higher. Does
/// nothing if strict, because the turn is then refused.
void ClampOutput(const SessionTableOptions& options, const std::string& param, TurnSpec* spec, IgnoredFields* ignored);

/// To be called after all fields of `body`: enables beam search if requested.
/// ERRORS: kInvalidArgument, naming the field, for a field without meaning with beams, or without.
Status CheckBeamFields(const JsonValue& body, TurnSpec* spec);

}  // namespace ringside
