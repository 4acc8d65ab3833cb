// The verb `ringside owners`: what each owner has on the server, and all together. THREAD: main.
#pragma once

#include "clients/cli/options.h"

namespace ringside::client {

/// Returns the exit code: 0, or 1 with the reason on standard error.
int ShowOwners(const ServerAccess& server, bool json);

}  // namespace ringside::client
