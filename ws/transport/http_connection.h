// One TCP connection that speaks HTTP/1.1, until it ends or becomes a WebSocket. Lives in its own pending operations;
// everything runs on its strand.
#pragma once

#include "ws/transport/server_context.h"

namespace ringside {

/// Serves `socket`. `context` outlives it.
void StartHttpConnection(Socket socket, ConnectionTicket ticket, ServerContext& context);

}  // namespace ringside
