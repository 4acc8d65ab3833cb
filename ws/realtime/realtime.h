// The text part of OpenAI's Realtime protocol: one WebSocket is one session, and its conversation is one of the table.
// The wire as built is described in ws/PROTOCOL.md.
#pragma once

#include "session/table/session_table.h"
#include "ws/fields/field_info.h"
#include "ws/transport/run_on_worker.h"
#include "ws/transport/server.h"

namespace ringside {

/// The WebSocket of /v1/realtime. `?model=` must be the served one, `?conversation=conv_...` goes on with that
/// conversation; the beta protocol is refused. `table` outlives it; `run` does what comes behind a running response
/// (null = the table's own thread does).
SocketRoute RealtimeRoute(SessionTable& table, RunOnWorker run = nullptr);

/// The client events and HTTP requests of this face that have fields.
std::vector<RequestKind> RealtimeRequestKinds();

}  // namespace ringside
