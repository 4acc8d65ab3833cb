// The owners of conversations for a key with scope admin: totals of each and of all, and the ids of an owner's
// conversations. Never their texts. THREAD: handlers run on workers.
#pragma once

#include "session/table/session_table.h"
#include "ws/transport/http/http.h"

namespace ringside {

/// Adds GET /v1/owners and GET /v1/owners/conversations. REQUIRES: `table` outlives the router.
void AddOwnerRoutes(Router& router, const SessionTable& table);

}  // namespace ringside
