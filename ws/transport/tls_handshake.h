// The handshake in front of a connection under TLS. Lives in its own pending operations, on the connection's strand.
#pragma once

#include "ws/transport/server_context.h"

namespace ringside {

/// Serves `socket` once the handshake has succeeded. What has not within a few seconds is cut, and so is at once what
/// comes while too many others are at it: each costs a signature. `context` outlives it.
void StartTlsHandshake(Socket socket, ConnectionTicket ticket, ServerContext& context);

}  // namespace ringside
