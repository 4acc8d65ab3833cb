// Turns that are asked for over HTTP. Whatever speaks against one is found before anything is answered, so that it is a
// status and not an event. On workers; `table` outlives the answers.
#pragma once

#include <cstdint>
#include <functional>

#include "session/table/session_table.h"
#include "ws/openai/responses/responses.h"
#include "ws/transport/http/http.h"

namespace ringside {

/// POST /v1/responses: the answer whole when it has ended, as a stream of events, or, in the background, as it begins.
/// `retry_after_ms` may be null: not known.
HttpResponse CreateResponse(SessionTable& table, const HttpRequest& request, const RetryAfter& retry_after_ms);
/// POST /v1/responses/input_tokens: how many tokens the same body's answer would have before it.
HttpResponse CountInputTokens(SessionTable& table, const HttpRequest& request);

/// POST /v1/responses/compact: a history as a client keeps it from now on. On a worker.
HttpResponse CompactResponse(SessionTable& table, const HttpRequest& request);

}  // namespace ringside
