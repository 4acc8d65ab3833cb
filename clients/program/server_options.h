// The options of each client program that select its server: address, key, certificates.
// THREAD: main.
#pragma once

#include "clients/wire/outcome.h"
#include "clients/wire/server_access.h"

namespace CLI {
class App;
}

namespace ringside::client {

void AddServerOptions(CLI::App& app, ServerAccess& server);

/// Fills in `server.url` after the command line is parsed. RINGSIDE_URL, RINGSIDE_API_KEY and RINGSIDE_CACERT are the
/// defaults of --url, --api-key and --cacert. Fails for an unusable address or key.
Outcome<Done> SettleServer(ServerAccess& server);

}  // namespace ringside::client
