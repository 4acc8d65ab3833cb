// Turns requested over HTTP. All errors are found before the response starts, so that they are an HTTP status and not
// an event.
// THREAD: workers.
// REQUIRES: `table` outlives the answers.
#pragma once

#include <cstdint>
#include <functional>

#include "session/table/session_table.h"
#include "ws/openai/responses/responses.h"
#include "ws/transport/http/http.h"

namespace ringside {

/// POST /v1/responses: returns the complete answer at its end, a stream of events, or, in the background, its start.
/// `retry_after_ms`: null = unknown.
HttpResponse CreateResponse(SessionTable& table, const HttpRequest& request, const RetryAfter& retry_after_ms);
/// POST /v1/responses/input_tokens: number of tokens before the answer to the same body.
HttpResponse CountInputTokens(SessionTable& table, const HttpRequest& request);

/// POST /v1/responses/compact: a history in the form that clients keep.
/// THREAD: a worker.
HttpResponse CompactResponse(SessionTable& table, const HttpRequest& request);

}  // namespace ringside
