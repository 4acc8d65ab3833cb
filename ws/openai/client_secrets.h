// POST /v1/realtime/client_secrets: short-lived tickets that open one WebSocket, for pages that must not hold the key.
#pragma once

#include "base/clock.h"
#include "ws/access/tickets.h"
#include "ws/transport/http.h"

namespace ringside {

/// `tickets` outlive the router.
void RegisterClientSecretRoutes(Router& router, TicketBox& tickets, const Clock& clock = SystemClock::Instance());

}  // namespace ringside
