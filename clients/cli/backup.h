// `ringside backup`: asks a server to copy its store. Blocks until the copy is complete.
#pragma once

#include "clients/wire/server_access.h"

namespace ringside::client {

/// Prints the copy's name, a folder below the server's --backup-path. Returns the exit status: 0, or 1 with a message
/// on standard error.
int MakeBackup(const ServerAccess& server);

}  // namespace ringside::client
