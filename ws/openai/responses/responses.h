// The OpenAI Responses protocol in WebSocket mode, one object per upgraded connection: reads client events, starts
// turns on lanes, answers into the connection's Outbox. OnMessage and OnClosed are called on the connection's strand;
// events of turns arrive on other threads and touch the Outbox only. The wire as built is described in ws/PROTOCOL.md.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "session/table/session_table.h"
#include "ws/transport/server.h"

namespace ringside {

/// Runs a call on one of the workers, which `client` shares with the others; `bytes` are what it holds. kUnavailable:
/// too many wait, and it never runs.
using RunOnWorker = std::function<Status(const std::string& client, size_t bytes, std::function<void()> call)>;

/// When there should be room for a turn of this principal's that was refused for want of it, in milliseconds.
using RetryAfter = std::function<int64_t(const std::string& principal)>;

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
  /// As ringside:session.resume would.
  void Attach(const ResumeRequest& request);
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

}  // namespace ringside
