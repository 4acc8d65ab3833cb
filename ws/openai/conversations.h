// Conversations over HTTP: create, list, get, change, delete, export, import, verify, and their items, in OpenAI's
// format, described in ws/PROTOCOL.md.
// THREAD: handlers run on workers.
#pragma once

#include <vector>

#include "session/table/session_table.h"
#include "ws/fields/field_info.h"
#include "ws/transport/http/http.h"

namespace ringside {

/// Adds /v1/conversations and everything below it.
/// REQUIRES: `table` outlives the router.
void RegisterConversationRoutes(Router& router, SessionTable& table);
/// Requests of these routes that have fields.
std::vector<RequestKind> ConversationRequestKinds();

}  // namespace ringside
