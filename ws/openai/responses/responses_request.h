// A response.create body, checked field by field into a TurnSpec: an unknown field is an error with its name, null is
// absence, a known field at its harmless value is accepted, one that asks for what this server lacks is an error. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "session/table/session_table.h"
#include "ws/json/json_value.h"

namespace ringside {

/// How an answer is to come over HTTP, which is asked for among the other fields.
struct HttpDelivery {
  bool stream = false;
};
/// `body` is the client event (an object), or with `http` the body of an HTTP request. kInvalidArgument with `param`;
/// kNotFound (model_not_found).
Result<TurnSpec> ReadCreate(const JsonValue& body, const SessionTableOptions& options, HttpDelivery* http = nullptr);
/// The names of all fields that it knows.
std::vector<std::string> CreateFields();

}  // namespace ringside
