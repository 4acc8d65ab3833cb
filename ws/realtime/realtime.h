// The text part of OpenAI's Realtime protocol: one WebSocket is one session, whose conversation is stored in the table.
// The protocol as built is described in ws/PROTOCOL.md.
#pragma once

#include "session/table/session_table.h"
#include "ws/fields/field_info.h"
#include "ws/transport/run_on_worker.h"
#include "ws/transport/server.h"

namespace ringside {

/// The WebSocket of /v1/realtime. `?model=` must name the served model, `?conversation=conv_...` continues that
/// conversation; the beta protocol is refused. `run` executes work that follows a running response (null = the table's
/// own thread).
/// REQUIRES: `table` outlives the route.
SocketRoute RealtimeRoute(SessionTable& table, RunOnWorker run = nullptr);

/// Client events and HTTP requests of this protocol that have fields.
std::vector<RequestKind> RealtimeRequestKinds();

}  // namespace ringside
