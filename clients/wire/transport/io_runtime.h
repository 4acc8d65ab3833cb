// The I/O thread for a client's sockets and timers. Tasks run on it one after another, so data that only they access
// needs no lock. Owned by main (or a test); outlives every Socket on it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace ringside::client {

class IoRuntime {
 public:
  IoRuntime();
  /// Drops pending tasks and joins the thread.
  ~IoRuntime();
  IoRuntime(const IoRuntime&) = delete;
  IoRuntime& operator=(const IoRuntime&) = delete;

  /// Runs `work` on the runtime's thread. THREAD: any.
  void Post(std::function<void()> work);
  /// Runs `work` after a delay. It cannot be cancelled: it must check whether it is still needed. THREAD: any.
  void After(std::chrono::milliseconds delay, std::function<void()> work);

  /// Asio's context and thread, for socket.cpp.
  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace ringside::client
