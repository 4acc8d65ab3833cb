// Readiness check for people, containers and process supervisors. Blocking.
#pragma once

#include "clients/wire/outcome.h"
#include "clients/wire/transport/server_url.h"

namespace ringside::client {

/// Ok if a turn would be answered now; otherwise the reason. Needs no key; takes at most ten seconds.
Outcome<Done> AskWhetherReady(ServerUrl url);

}  // namespace ringside::client
