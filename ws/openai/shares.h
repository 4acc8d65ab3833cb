// Share links over HTTP: the owner makes, lists and revokes them below /v1/conversations/{id}/shares; their holders
// read the conversation at /v1/shared, without a key. Described in ws/PROTOCOL.md. THREAD: handlers run on workers.
#pragma once

#include <vector>

#include "session/table/session_table.h"
#include "ws/fields/field_info.h"
#include "ws/transport/server.h"

namespace ringside {

/// REQUIRES: `table` outlives the service.
void AddShareRoutes(Service& service, SessionTable& table);
/// Requests of these routes that have fields.
std::vector<RequestKind> ShareRequestKinds();

}  // namespace ringside
