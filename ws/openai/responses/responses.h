// OpenAI's Responses protocol in WebSocket mode, one object per connection: handles client events, starts turns on
// lanes, writes to the connection's Outbox. The protocol as built is described in ws/PROTOCOL.md.
// THREAD: OnMessage and OnClosed: the connection's strand; events of turns arrive on other threads, which only touch
// the Outbox.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "session/table/session_table.h"
#include "ws/fields/field_info.h"
#include "ws/transport/run_on_worker.h"
#include "ws/transport/server.h"

namespace ringside {

class ResponsesSocket {
 public:
  /// `principal`: authenticated owner. `retry_after_ms`: null = unknown. `run` starts turns that were queued in a lane;
  /// null = the table's own thread does. `trace`: the connection's.
  /// REQUIRES: `table` outlives the socket.
  ResponsesSocket(SessionTable& table, std::string principal, std::shared_ptr<Outbox> outbox,
                  RetryAfter retry_after_ms = nullptr, RunOnWorker run = nullptr, TraceContext trace = {});
  ~ResponsesSocket();
  ResponsesSocket(const ResponsesSocket&) = delete;
  ResponsesSocket& operator=(const ResponsesSocket&) = delete;

  /// Handles one complete message, text or binary: a JSON object. Errors are sent to the client.
  void OnMessage(std::string_view message);
  /// As ringside:session.resume. `ignored`: ignored fields of the request.
  void Attach(const ResumeRequest& request, const std::vector<std::string>& ignored = {});
  /// The connection is closed. Turns continue, except those visible to this connection only, which are cancelled on the
  /// table's thread.
  void OnClosed();
  /// True while an answer is running or queued: a close meanwhile uses 1012, never 1000 or 1001.
  bool busy() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

/// The WebSocket of /v1/responses; `?session=&epoch=&after=&seq=&chain=` attaches at the upgrade, which is refused for
/// an unknown session. Parameters as above.
/// REQUIRES: `table` outlives the route.
SocketRoute ResponsesRoute(SessionTable& table, RetryAfter retry_after_ms = nullptr, RunOnWorker run = nullptr);

/// The HTTP routes of /v1/responses. `retry_after_ms` as above.
void RegisterResponseRoutes(Router& router, SessionTable& table, const RetryAfter& retry_after_ms = nullptr);

/// Client events of the WebSocket and HTTP requests of /v1/responses that have fields.
std::vector<RequestKind> ResponseRequestKinds();

}  // namespace ringside
