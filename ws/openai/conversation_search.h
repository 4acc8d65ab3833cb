// GET /v1/conversations/search: a search in the texts of the caller's messages, described in ws/PROTOCOL.md.
// THREAD: handlers run on workers.
#pragma once

#include "session/table/session_table.h"
#include "ws/fields/field_info.h"
#include "ws/transport/http/http.h"

namespace ringside {

/// REQUIRES: `table` outlives the router; no pattern that matches the path has been added.
void AddSearchRoute(Router& router, SessionTable& table);
RequestKind SearchRequestKind();

}  // namespace ringside
