// What the requests of /v1/chat/completions and /v1/completions have in common. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "session/table/session_table.h"
#include "ws/fields/ignored_fields.h"
#include "ws/fields/reasoning_fields.h"
#include "ws/json/json_value.h"

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
/// Reads a field, not null, that both faces have; ignores and reports any other. kInvalidArgument, kNotFound with
/// `param`.
Status ReadCompletionField(const JsonValue& value, const std::string& param, const SessionTableOptions& options,
                           CompletionFields* fields);

}  // namespace ringside
