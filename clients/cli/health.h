// Whether a server is ready, for people, containers and whoever starts a server. Blocking.
#pragma once

#include "clients/wire/outcome.h"
#include "clients/wire/server_url.h"

namespace ringside::client {

/// Ok if a turn would be answered now; else a Failure that says why not. Needs no key; takes at most ten seconds.
Outcome<Done> AskWhetherReady(ServerUrl url);

}  // namespace ringside::client
