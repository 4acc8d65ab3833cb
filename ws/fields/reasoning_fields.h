// The request fields that control reasoning: one table for every face, whichever API a field comes from. Pure; any
// thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "session/chat/reasoning_spec.h"
#include "session/session_options.h"
#include "session/turn/turn_spec.h"
#include "ws/fields/ignored_fields.h"
#include "ws/json/json_value.h"

namespace ringside {

/// The reasoning settings of one request.
struct ReasoningRequest {
  ReasoningSpec spec;
  bool hidden = false;  // the text of the reasoning is not sent
  std::string summary;  // Responses: "auto", "concise" or "detailed"; "" = not requested
  // Paths of the fields that set spec.mode, .effort, .budget_tokens and .template_kwargs; "" = none did.
  std::string mode_field, effort_field, budget_field, template_field;
};

/// The fields that ReadReasoningField reads.
std::vector<std::string> ReasoningFields();
/// True for a field that ReadReasoningField reads.
bool IsReasoningField(std::string_view key);
/// Reads the value of `key`, not null, at the path `param`. A value that is not understood is ignored and reported.
/// ERRORS: unsupported_value for such a value if `ignored` is strict.
Status ReadReasoningField(const JsonValue& value, std::string_view key, const std::string& param,
                          IgnoredFields* ignored, ReasoningRequest* out);
/// An effort alone, as in Anthropic's output_config. ERRORS: as above.
Status ReadReasoningEffort(const JsonValue& value, const std::string& param, IgnoredFields* ignored,
                           ReasoningRequest* out);

/// After all fields have been read: sets `turn->reasoning` and reports the settings that are not honoured, by the
/// model's chat template or in a beam search. ERRORS: as above; template variables that are too large or nested too
/// deeply.
Status SetReasoning(const ReasoningRequest& request, const SessionTableOptions& options, IgnoredFields* ignored,
                    TurnSpec* turn);

}  // namespace ringside
