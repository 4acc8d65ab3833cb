// Timers of one WebSocket. Owned by its Connection.
// THREAD: the connection's strand.
#pragma once

#include "ws/transport/server_context.h"

namespace ringside {

struct SocketTimers {
  explicit SocketTimers(const Timer::executor_type& strand)
      : age(strand), idle(strand), ping(strand), deadline(strand, Timer::time_point::max()), retry(strand) {}

  void Cancel() {
    for (Timer* timer : {&age, &idle, &ping, &deadline, &retry}) timer->cancel();
  }

  Timer age;       // of the socket
  Timer idle;      // time without a message and without an answer
  Timer ping;      // next ping, and the checks made with it
  Timer deadline;  // end of the close handshake; max = not set
  Timer retry;     // next attempt to find a free worker
};

}  // namespace ringside
