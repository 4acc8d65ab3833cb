// `ringside drain`: takes a server of a shared store out of service, or back into it. Blocking.
#pragma once

#include "clients/cli/options.h"

namespace ringside::client {

/// Prints the server's state. With DrainOptions::wait, returns once the server has no conversation left. Returns the
/// exit status: 0, or 1 with a message on standard error.
int DrainServer(const ServerAccess& server, const DrainOptions& options);

}  // namespace ringside::client
