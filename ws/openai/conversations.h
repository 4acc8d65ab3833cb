// Conversations over HTTP: create, list, get, change, delete, export, import, verify, and their items. Handlers run on
// any io thread and answer at once; the shapes are OpenAI's and described in ws/PROTOCOL.md.
#pragma once

#include <vector>

#include "session/table/session_table.h"
#include "ws/fields/field_info.h"
#include "ws/transport/http/http.h"

namespace ringside {

/// The largest exported conversation that is taken in.
inline constexpr int64_t kMaxImportBytes = 64 << 20;

/// Adds /v1/conversations and everything below it. `table` outlives the router.
void RegisterConversationRoutes(Router& router, SessionTable& table);
/// The requests of these routes that have fields.
std::vector<RequestKind> ConversationRequestKinds();

}  // namespace ringside
