// Input of one WebSocket: the message being received, complete messages that wait for a worker, and the bytes of the
// one that a worker has. Bounds their bytes, their number, their rate and the reads of each. Owned by its Connection.
// THREAD: the connection's strand.
#pragma once

#include <boost/beast/core/flat_buffer.hpp>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "ws/transport/limits/body_budget.h"
#include "ws/transport/socket/rate_limit.h"

namespace ringside {

class SocketInput {
 public:
  /// Messages that may wait for workers.
  static constexpr size_t kMaxWaiting = 256;

  /// Messages are read ahead until `read_ahead_bytes` wait. `messages_per_second` permits bursts of ten times that
  /// number. `bodies` outlives the input.
  SocketInput(int64_t read_ahead_bytes, int64_t messages_per_second, BodyBudget& bodies)
      : read_ahead_bytes_(read_ahead_bytes),
        rate_(static_cast<double>(messages_per_second), 10.0 * static_cast<double>(messages_per_second)),
        share_(bodies) {}

  /// Bytes of the message being received.
  boost::beast::flat_buffer& buffer() { return buffer_; }
  /// Charges all bytes held to `owner`; false if the budget has no room for them.
  bool Charge(const std::string& owner) { return share_.Hold(owner, waiting_bytes_ + working_bytes_ + buffer_.size()); }
  /// Counts a read of the current message; false if the message arrives in too many pieces.
  bool CountPiece();
  /// Counts a message; false if the peer sends too many.
  bool AllowMessage() { return rate_.Allow(); }
  /// Appends the received message to those that wait, and starts the next one.
  void QueueMessage();

  bool empty() const { return waiting_.empty(); }
  /// True while further messages may be read ahead of the workers.
  bool HasRoom() const {
    return static_cast<int64_t>(waiting_bytes_) < read_ahead_bytes_ && waiting_.size() < kMaxWaiting;
  }
  /// REQUIRES: !empty().
  std::shared_ptr<const std::string> front() const { return waiting_.front(); }
  /// Removes the first message that waits, for a worker: its bytes are charged until EndWork.
  void Pop();
  /// The worker is done; `owner` is charged for the other messages.
  void EndWork(const std::string& owner);
  void DropWaiting() { waiting_.clear(); }

  /// Notes whether reading waits for room or for a worker.
  void SetPaused(bool paused) { paused_ = paused; }
  bool paused() const { return paused_; }

 private:
  const int64_t read_ahead_bytes_;
  RateLimit rate_;
  BodyShare share_;
  boost::beast::flat_buffer buffer_;
  int64_t pieces_ = 0;  // reads of the current message
  std::deque<std::shared_ptr<const std::string>> waiting_;
  size_t waiting_bytes_ = 0;
  size_t working_bytes_ = 0;  // of the message that a worker has
  bool paused_ = false;
};

}  // namespace ringside
