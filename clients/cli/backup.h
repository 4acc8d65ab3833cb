// `ringside backup`: asks a server to copy its store. Blocks until the copy is made.
#pragma once

#include "clients/wire/server_access.h"

namespace ringside::client {

/// Prints the copy's name, which is a folder of the server's --backup-path. Returns the exit status: 0, or 1 with a
/// sentence on standard error.
int MakeBackup(const ServerAccess& server);

}  // namespace ringside::client
