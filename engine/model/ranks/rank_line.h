// A line between the first process and a rank of another one: messages of any length, and bytes whose number both know.
// One thread at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "kernels/ranks/comm.h"

namespace ringside {

class RankLine {
 public:
  /// `comm`: of a group of the processes; the other end is that of process `peer`.
  RankLine(std::unique_ptr<Comm> comm, int peer) : comm_(std::move(comm)), peer_(peer) {}

  void Send(std::string_view message);
  /// The next one; kUnavailable where it does not come, kCorruption where it would be too long.
  Result<std::string> Receive();
  void SendBytes(const void* data, size_t bytes) { comm_->Send(data, bytes, peer_); }
  void ReceiveBytes(void* data, size_t bytes) { comm_->Receive(data, bytes, peer_); }

  /// kUnavailable once the other end is gone. Any thread.
  Status status() const { return comm_->status(); }

 private:
  std::unique_ptr<Comm> comm_;
  int peer_;
};

}  // namespace ringside
