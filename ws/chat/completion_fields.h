// Fields common to /v1/chat/completions and /v1/completions. Pure.
// THREAD: any.
#pragma once

#include <optional>

#include "base/status.h"
#include "session/turn/turn_spec.h"
#include "ws/fields/field_table.h"
#include "ws/fields/reasoning_fields.h"

namespace ringside {

struct CompletionFields {
  IgnoredFields ignored;
  TurnSpec turn;
  ReasoningRequest reasoning;
  int64_t choices = 1;
  std::optional<AnswerFormat> guided;  // answer format in the spelling of other servers
  bool stream = false;
  bool include_usage = false;     // of a stream
  bool continuous_usage = false;  // in every chunk; requires include_usage
};

/// To be called after all fields: applies `guided`, if set, as the answer's format.
/// ERRORS: kInvalidArgument (mutually_exclusive_parameters) if `response_format` requests another.
Status ChooseGuided(CompletionFields* fields);
/// The fields of both protocols.
const Fields<CompletionFields>& CompletionRows();

}  // namespace ringside
