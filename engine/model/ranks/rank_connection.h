// A connection between the first process and a rank of another one: length-prefixed messages, and raw bytes of known
// length. THREAD: one at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "kernels/ranks/comm.h"

namespace ringside {

class RankConnection {
 public:
  /// `comm`: a group of the processes; `peer`: the process at the other end.
  RankConnection(std::unique_ptr<Comm> comm, int peer) : comm_(std::move(comm)), peer_(peer) {}

  void Send(std::string_view message);
  /// The next message. ERRORS: kUnavailable if the peer is gone, kCorruption if it is too long.
  Result<std::string> Receive();
  void SendBytes(const void* data, size_t bytes) { comm_->Send(data, bytes, peer_); }
  void ReceiveBytes(void* data, size_t bytes) { comm_->Receive(data, bytes, peer_); }

  /// kUnavailable once the peer is gone. THREAD: any.
  Status status() const { return comm_->status(); }

 private:
  std::unique_ptr<Comm> comm_;
  int peer_;
};

}  // namespace ringside
