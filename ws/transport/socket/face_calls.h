// Calls of one WebSocket's face, one at a time and in order: the opening, the messages, and last the closing. Owned by
// its Connection.
// THREAD: the connection's strand, except for Run.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/trace_context.h"
#include "ws/transport/server.h"

namespace ringside {

class FaceCalls {
 public:
  /// `client` is charged for the workers; `trace` is that of the opening request.
  void Identify(std::string client, const TraceContext& trace);
  void Open(SocketFace face);

  const std::string& client() const { return client_; }
  /// Null before Open and after Close.
  const std::shared_ptr<SocketFace>& face() const { return face_; }
  /// True until a worker has taken the notification of the opening.
  bool opening() const { return opening_; }
  void SetOpening(bool opening) { opening_ = opening; }
  /// True while a worker has a call.
  bool working() const { return working_; }
  void SetWorking(bool working) { working_ = working; }
  /// True while a call is due or running, or the face has a running answer.
  /// REQUIRES: between Open and Close.
  bool Busy() const { return working_ || opening_ || (face_->busy && face_->busy()); }

  /// Runs one call. An exception is reported to the peer.
  /// THREAD: a worker.
  void Run(const std::function<void()>& call, Outbox& outbox) const;
  /// Notifies the face that the socket is closed; only the first call counts.
  /// REQUIRES: !working(), or the workers have stopped.
  void Close();

 private:
  std::shared_ptr<SocketFace> face_;
  std::string client_;
  TraceContext trace_;
  bool opening_ = false;
  bool working_ = false;
};

}  // namespace ringside
