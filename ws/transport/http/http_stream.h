// An HTTP answer that is written while it is made: server-sent events of a running turn. Takes over the connection of
// the request and ends it when the answer ends. Lives in its own pending operations; everything runs on its strand, and
// what others want written goes through its Outbox, with the limits of a WebSocket's.
#pragma once

#include "ws/transport/http/http_text.h"
#include "ws/transport/net_stream.h"
#include "ws/transport/server_context.h"

namespace ringside {

/// Sends `response`'s head, then what its `stream` pushes: each message as it is. A close of the Outbox with
/// Outbox::kEndOfBody ends the body in order; any other cuts it short, so that the peer can tell. A comment line is
/// sent into a silence of a ping interval, where the body is server-sent events. The peer's going away ends it.
/// `context` outlives the stream.
void StartHttpStream(NetStream socket, ConnectionTicket ticket, ServerContext& context, const HttpRequest& asked,
                     HttpResponse response, AnswerStyle style);

}  // namespace ringside
