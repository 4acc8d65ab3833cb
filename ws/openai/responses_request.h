// A response.create body, checked field by field into a TurnSpec: an unknown field is an error with its name, null is
// absence, a known field at its harmless value is accepted, one that asks for what this server lacks is an error. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "session/session_table.h"
#include "ws/json/json_value.h"

namespace ringside {

/// `body` is the client event (an object). kInvalidArgument with `param`; kNotFound (model_not_found).
Result<TurnSpec> ReadCreate(const JsonValue& body, const SessionTableOptions& options);
/// The names of all fields that it knows.
std::vector<std::string> CreateFields();

}  // namespace ringside
