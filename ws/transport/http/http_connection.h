// One connection that speaks HTTP/1.1, until it ends or becomes a WebSocket. Lives in its own pending operations;
// everything runs on its strand.
#pragma once

#include "ws/transport/net_stream.h"
#include "ws/transport/server_context.h"

namespace ringside {

/// Serves `stream`. `context` outlives it.
void StartHttpConnection(NetStream stream, ConnectionTicket ticket, ServerContext& context);

}  // namespace ringside
