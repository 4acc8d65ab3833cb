// Request fields that control reasoning: one table for all protocols. Pure.
// THREAD: any.
#pragma once

#include <string>

#include "base/status.h"
#include "session/chat/templates/reasoning_spec.h"
#include "session/session_options.h"
#include "session/turn/turn_spec.h"
#include "ws/fields/field_table.h"
#include "ws/json/json_value.h"

namespace ringside {

/// The reasoning settings of one request.
struct ReasoningRequest {
  ReasoningSpec spec;
  bool hidden = false;  // the reasoning is not sent
  std::string summary;  // Responses: "auto", "concise" or "detailed"; "" = not requested
  // Paths of the fields that set spec.mode, .effort, .budget_tokens and .template_kwargs; "" = not set.
  std::string mode_field, effort_field, budget_field, template_field;
};

/// Rows of all fields that control reasoning. Invalid values are ignored and reported.
const Fields<ReasoningRequest>& ReasoningFields();
/// An effort alone, as in Anthropic's output_config. ERRORS: unsupported_value for an unknown effort if strict.
Status ReadReasoningEffort(const JsonValue& value, const std::string& param, const FieldContext& context,
                           ReasoningRequest* out);

/// To be called after all fields: sets `turn->reasoning` and reports settings that the chat template or a beam search
/// cannot honour.
/// ERRORS: unsupported_value if strict; template variables that are too large or nested too deeply.
Status SetReasoning(const ReasoningRequest& request, const SessionTableOptions& options, IgnoredFields* ignored,
                    TurnSpec* turn);

}  // namespace ringside
