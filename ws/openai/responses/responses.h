// The OpenAI Responses protocol in WebSocket mode, one object per upgraded connection: reads client events, starts
// turns on lanes, answers into the connection's Outbox. OnMessage and OnClosed are called on the connection's strand;
// events of turns arrive on other threads and touch the Outbox only. The wire as built is described in ws/PROTOCOL.md.
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
  /// `table` outlives the socket. `principal` is who connected, after authentication. Without `retry_after_ms` nobody
  /// knows when there will be room. `run` starts the turns that waited in
  /// a lane; null = the table's own thread does. `trace` is the connection's.
  ResponsesSocket(SessionTable& table, std::string principal, std::shared_ptr<Outbox> outbox,
                  RetryAfter retry_after_ms = nullptr, RunOnWorker run = nullptr, TraceContext trace = {});
  ~ResponsesSocket();
  ResponsesSocket(const ResponsesSocket&) = delete;
  ResponsesSocket& operator=(const ResponsesSocket&) = delete;

  /// One whole message, text or binary: a JSON object. Never fails: what is wrong with it is answered.
  void OnMessage(std::string_view message);
  /// As ringside:session.resume would. `ignored`: fields of the request without effect.
  void Attach(const ResumeRequest& request, const std::vector<std::string>& ignored = {});
  /// The connection is gone. Turns run on, except those that only this connection could see: these are cancelled soon,
  /// on the table's thread.
  void OnClosed();
  /// True while an answer is running or waits to run: a close in the middle of it is 1012, never 1000 or 1001.
  bool busy() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

/// The WebSocket of /v1/responses; `?session=&epoch=&after=&seq=&chain=` attaches at the upgrade, which is refused for
/// an unknown session. `table` outlives it; the others as above.
SocketRoute ResponsesRoute(SessionTable& table, RetryAfter retry_after_ms = nullptr, RunOnWorker run = nullptr);

/// Everything of /v1/responses that is no WebSocket. `retry_after_ms` as above.
void RegisterResponseRoutes(Router& router, SessionTable& table, const RetryAfter& retry_after_ms = nullptr);

/// The client events of the WebSocket and the HTTP requests of /v1/responses that have fields.
std::vector<RequestKind> ResponseRequestKinds();

}  // namespace ringside
