// A response.create body, read field by field into a TurnSpec: null is absence, an unknown field or hint is ignored and
// reported (an error if strict), and what would change the answer's meaning is an error with its name. Pure.
#pragma once

#include "base/status.h"
#include "session/table/session_table.h"
#include "ws/fields/field_info.h"
#include "ws/fields/ignored_fields.h"
#include "ws/json/json_value.h"

namespace ringside {

/// How an answer is to come over HTTP, which is asked for among the other fields.
struct HttpDelivery {
  bool stream = false;
};
/// `body` is the client event (an object), or with `http` the body of an HTTP request. kInvalidArgument with `param`;
/// kNotFound (model_not_found).
/// What is ignored is added to `ignored`, and the response object reports it.
Result<TurnSpec> ReadCreate(const JsonValue& body, const SessionTableOptions& options, IgnoredFields* ignored,
                            HttpDelivery* http = nullptr);
/// Its fields, over HTTP or as an event of a WebSocket.
RequestKind CreateKind(bool http);

}  // namespace ringside
