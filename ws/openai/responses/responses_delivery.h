// How a response goes to an HTTP client: as server-sent events while it is made, or whole when it has ended. Called on
// workers; `table` outlives the answers.
#pragma once

#include <cstdint>
#include <string>

#include "session/table/session_table.h"
#include "ws/transport/http/http.h"

namespace ringside {

/// What became of the response as it stands, as JSON. Its error where it is unknown.
HttpResponse ResponseNow(const SessionTable& table, const Caller& caller, const std::string& id);

/// The events of the response from number `from` on, to its end. The caller has found the response: where it is gone
/// when the stream begins, the stream is cut.
HttpResponse StreamEvents(SessionTable& table, const Caller& caller, const std::string& id, uint64_t from);

enum class WhenFailed {
  kTellError,     // the answer is the error, with its HTTP status
  kTellResponse,  // the answer is the response, whose status is "failed"
};
/// The response as JSON, when it has ended.
HttpResponse AwaitEnd(SessionTable& table, const Caller& caller, const std::string& id, WhenFailed when_failed);

}  // namespace ringside
