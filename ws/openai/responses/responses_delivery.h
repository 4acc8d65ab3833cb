// Delivers a response to an HTTP client: as server-sent events while it runs, or complete at its end.
// THREAD: workers.
// REQUIRES: `table` outlives the answers.
#pragma once

#include <cstdint>
#include <string>

#include "session/table/session_table.h"
#include "ws/transport/http/http.h"

namespace ringside {

/// The response's current state as JSON, or an error if it is unknown.
HttpResponse ResponseNow(const SessionTable& table, const Caller& caller, const std::string& id);

/// The response's events from number `from` to its end. The caller has found the response: if it is gone when the
/// stream starts, the stream is cut.
HttpResponse StreamEvents(SessionTable& table, const Caller& caller, const std::string& id, uint64_t from);

enum class WhenFailed {
  kTellError,     // return the error with its HTTP status
  kTellResponse,  // return the response, with status "failed"
};
/// The response as JSON, at its end.
HttpResponse AwaitEnd(SessionTable& table, const Caller& caller, const std::string& id, WhenFailed when_failed);

}  // namespace ringside
