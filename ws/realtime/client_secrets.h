// POST /v1/realtime/client_secrets: short-lived tickets that open one WebSocket, for pages that must not hold the key,
// with the settings of the Realtime session that they open.
#pragma once

#include "base/clock.h"
#include "session/session_options.h"
#include "ws/access/tickets.h"
#include "ws/fields/field_info.h"
#include "ws/transport/http/http.h"

namespace ringside {

/// REQUIRES: `tickets` and `options` (the session table's) outlive the router.
void RegisterClientSecretRoutes(Router& router, TicketBox& tickets, const SessionTableOptions& options,
                                const Clock& clock = SystemClock::Instance());
RequestKind ClientSecretKind();

}  // namespace ringside
