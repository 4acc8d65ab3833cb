// Parses a response.create body into a TurnSpec: null means absent; unknown fields and hints are ignored and reported
// (an error if strict); fields that would change the answer's meaning are errors. Pure.
#pragma once

#include "base/status.h"
#include "session/table/session_table.h"
#include "ws/fields/field_info.h"
#include "ws/fields/ignored_fields.h"
#include "ws/json/json_value.h"

namespace ringside {

/// Delivery of an answer over HTTP, requested among the other fields.
struct HttpDelivery {
  bool stream = false;
};
/// `body`: the client event (an object), or with `http` the body of an HTTP request. Adds ignored fields to `ignored`
/// and to the response object's report.
/// ERRORS: kInvalidArgument with `param`; kNotFound (model_not_found).
Result<TurnSpec> ReadCreate(const JsonValue& body, const SessionTableOptions& options, IgnoredFields* ignored,
                            HttpDelivery* http = nullptr);
/// Its fields, over HTTP or as a WebSocket event.
RequestKind CreateKind(bool http);

}  // namespace ringside
