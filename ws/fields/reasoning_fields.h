// The request fields that control reasoning: one table for every face, whichever API a field comes from. Pure; any
// thread.
#pragma once

#include <string>

#include "base/status.h"
#include "session/chat/reasoning_spec.h"
#include "session/session_options.h"
#include "session/turn/turn_spec.h"
#include "ws/fields/field_table.h"
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

/// The rows of every field that controls reasoning. A value that is not understood is ignored and reported.
const Fields<ReasoningRequest>& ReasoningFields();
/// An effort alone, as in Anthropic's output_config. ERRORS: unsupported_value for an unknown effort if strict.
Status ReadReasoningEffort(const JsonValue& value, const std::string& param, const FieldContext& context,
                           ReasoningRequest* out);

/// After all fields have been read: sets `turn->reasoning` and reports the settings that are not honoured, by the
/// model's chat template or in a beam search. ERRORS: unsupported_value if strict; template variables that are too
/// large or nested too deeply.
Status SetReasoning(const ReasoningRequest& request, const SessionTableOptions& options, IgnoredFields* ignored,
                    TurnSpec* turn);

}  // namespace ringside
