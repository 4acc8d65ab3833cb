// The verb `ringside owners`: the use of the server by each owner, and its sum. THREAD: main.
#pragma once

#include "clients/cli/options.h"

namespace ringside::client {

/// Returns the exit code: 0, or 1 with the reason on standard error.
int ShowOwners(const ServerAccess& server, bool json);

}  // namespace ringside::client
