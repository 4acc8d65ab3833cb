// Phases of one HTTP connection as a state machine. Owned by its HttpConnection.
//
//     +------------------------ kept alive -------------------------+
//     |                                                             |
//     v    first byte               complete, or refused            |   not kept alive
//   kIdle -----------> kReceiving ------------------------> kAnswering -----------------> kLingering
//                       ^  |   |                               ^    |
//               written |  |   | deadline             refused  |    | server stops
//                       |  v   v                               |    v
//               kContinuing   kTimedOut -----------------------+   kGivenUp
//
// Until a late answer or a delayed refusal is known, the connection reads to detect that its peer leaves:
//
//                    not known yet               known            read ended
//   kReceiving,     ---------------> kWatching ---------> kGiven ------------> kAnswering
//   or kAnswering                        | buffer full                             ^
//                                        |                         known           |
//                                        +------------> kWaiting ------------------+
//
// A connection is cut in any phase.
// THREAD: the connection's strand.
#pragma once

#include <cstdint>

namespace ringside {

class HttpPhase {
 public:
  enum class State : uint8_t {
    kIdle,        // no byte of the next request has arrived; a read is pending
    kReceiving,   // the request has begun; a read is pending
    kContinuing,  // 100 Continue is being written
    kTimedOut,    // the request did not arrive in time; the pending read has been cancelled
    kAnswering,   // the answer is made or written
    kGivenUp,     // answered without the worker's result, because the server stops
    kWatching,    // the answer comes later; a read is pending
    kWaiting,     // the answer comes later; enough of the next request has been read
    kGiven,       // the late answer is known; the pending read has been cancelled
    kLingering,   // the answer has been written; input is discarded
  };

  /// Enters `next` and returns true if the table of transitions allows it; otherwise the state is unchanged.
  bool Enter(State next);
  bool Is(State state) const { return state_ == state; }

 private:
  State state_ = State::kIdle;
};

}  // namespace ringside
