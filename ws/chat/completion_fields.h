// What the requests of /v1/chat/completions and /v1/completions have in common. Pure; any thread.
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
  std::optional<AnswerFormat> guided;  // the answer's form, as other servers' clients ask for it
  bool stream = false;
  bool include_usage = false;     // in a stream
  bool continuous_usage = false;  // in each of its chunks, with include_usage
};

/// After all fields have been read: the answer has the form of `guided`, if there is one. kInvalidArgument
/// (mutually_exclusive_parameters) where `response_format` asks for another.
Status ChooseGuided(CompletionFields* fields);
/// The rows that both faces have.
const Fields<CompletionFields>& CompletionRows();

}  // namespace ringside
