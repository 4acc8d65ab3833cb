// Streams an HTTP response while it is produced: the server-sent events of a running turn. Takes over the request's
// connection and ends it with the response. Other threads write through its Outbox, which has a WebSocket's limits.
// Kept alive by its pending operations.
// THREAD: its strand.
#pragma once

#include <chrono>

#include "ws/transport/http/http_text.h"
#include "ws/transport/net_stream.h"
#include "ws/transport/server_context.h"

namespace ringside {

/// Time for the peer to read the end of a response and close the connection. Until then its input is discarded, so
/// that no reset reaches it before the response.
inline constexpr std::chrono::milliseconds kLingerTime{2'000};

/// Sends the head of `response`, then each message that its `stream` pushes. Closing the Outbox with Outbox::kEndOfBody
/// ends the body in order; any other code truncates it, which the peer can detect. Server-sent events get a comment
/// line after each silent ping interval. The stream ends when the peer leaves.
/// REQUIRES: `context` outlives the stream.
void StartHttpStream(NetStream socket, ConnectionTicket ticket, ServerContext& context, const HttpRequest& asked,
                     HttpResponse response, AnswerStyle style);

}  // namespace ringside
