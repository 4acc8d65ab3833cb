// One HTTP/1.1 connection, until it ends or becomes a WebSocket. Kept alive by its pending operations.
// THREAD: its strand.
#pragma once

#include "ws/transport/net_stream.h"
#include "ws/transport/server_context.h"

namespace ringside {

/// Serves `stream`.
/// REQUIRES: `context` outlives the connection.
void StartHttpConnection(NetStream stream, ConnectionTicket ticket, ServerContext& context);

}  // namespace ringside
