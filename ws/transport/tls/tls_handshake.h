// TLS handshake of a new connection. Kept alive by its pending operations.
// THREAD: the connection's strand.
#pragma once

#include "ws/transport/server_context.h"

namespace ringside {

/// Serves `socket` after the handshake succeeds. A handshake that takes more than a few seconds is cut; new ones are
/// cut at once while too many are running, because each costs a signature.
/// REQUIRES: `context` outlives it.
void StartTlsHandshake(Socket socket, ConnectionTicket ticket, ServerContext& context);

}  // namespace ringside
