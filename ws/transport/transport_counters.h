// Socket counters since the start. Written by the transport's io threads, read for metrics. Owned by the App, outlives
// the Server.
// THREAD: any.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

namespace ringside {

class TransportCounters {
 public:
  struct Totals {
    int64_t open_websockets = 0;
    uint64_t slow_readers = 0;                       // sockets closed because the client did not read
    std::map<int, uint64_t> closes_by_code;          // 1006 = WebSocket lost without a close frame
    std::map<int, uint64_t> http_answers_by_status;  // 101 = upgrade
  };

  void WebSocketOpened() {
    std::lock_guard lock(mutex_);
    ++totals_.open_websockets;
  }
  void WebSocketClosed(int code) {
    std::lock_guard lock(mutex_);
    --totals_.open_websockets;
    ++totals_.closes_by_code[code];
  }
  void SlowReader() {
    std::lock_guard lock(mutex_);
    ++totals_.slow_readers;
  }
  void HttpAnswered(int status) {
    std::lock_guard lock(mutex_);
    ++totals_.http_answers_by_status[status];
  }
  Totals totals() const {
    std::lock_guard lock(mutex_);
    return totals_;
  }

 private:
  mutable std::mutex mutex_;
  Totals totals_;
};

}  // namespace ringside
