// The model that a request is for, before its other fields are read: their defaults and limits are the model's.
// THREAD: any; may read a model's text the first time (DiskWait).
#pragma once

#include "base/status.h"
#include "session/table/session_table.h"
#include "ws/json/json_value.h"
#include "ws/transport/http/http.h"

namespace ringside {

/// The options of the model that the body names, or to which its conversation or previous response belongs.
/// ERRORS: as SessionTable::OptionsFor.
Result<const SessionTableOptions*> OptionsOf(SessionTable& table, const Caller& caller, const JsonValue& body);
/// A request's body, and the options of the model that it is for.
struct AskedBody {
  JsonValue json;
  const SessionTableOptions* options = nullptr;  // of the table; not null
};
/// Parses the body of a request.
/// ERRORS: as ReadBody and OptionsOf.
Result<AskedBody> ReadAskedBody(SessionTable& table, const HttpRequest& request);

}  // namespace ringside
