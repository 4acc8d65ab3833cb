// Life of one WebSocket as a state machine. Owned by its Connection.
//
//               upgraded         message too large
//   kHandshake ---------> kOpen ------------------> kRefused
//                           |                          |
//                           +------------+-------------+
//                           |            |
//            server closes  |            | peer closes, or is lost
//                           v            v
//                        kClosing --> kFinished
//
// A socket that is lost during the opening handshake stays in kHandshake: it has no face yet.
#pragma once

#include <atomic>
#include <cstdint>

namespace ringside {

class SocketPhase {
 public:
  enum class State : uint8_t {
    kHandshake,  // the response to the upgrade is being written
    kOpen,       // messages are read and written
    kRefused,    // a message was too large: nothing more is read; queued output is written, then a close
    kClosing,    // a close frame is sent, and the peer's is awaited
    kFinished,   // the socket is closed
  };

  /// Enters `next` and returns true if the table of transitions allows it; otherwise the state is unchanged.
  /// THREAD: the connection's strand.
  bool Enter(State next);
  /// THREAD: any.
  bool Is(State state) const { return state_ == state; }
  bool finished() const { return Is(State::kFinished); }
  /// True while messages are accepted.
  bool reads() const { return Is(State::kOpen); }
  /// True while queued messages are written.
  bool writes() const {
    const State state = state_;
    return state == State::kOpen || state == State::kRefused;
  }

 private:
  std::atomic<State> state_{State::kHandshake};
};

}  // namespace ringside
