// The thread on which sockets and timers of a client live. Everything that is handed to it runs there, one after
// another, so that what only it touches needs no lock. Owned by main (or a test); outlives every Socket on it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace ringside::client {

class IoRuntime {
 public:
  IoRuntime();
  /// Drops what has not run yet and joins the thread.
  ~IoRuntime();
  IoRuntime(const IoRuntime&) = delete;
  IoRuntime& operator=(const IoRuntime&) = delete;

  /// Runs `work` soon on the runtime's thread. From any thread.
  void Post(std::function<void()> work);
  /// Runs `work` after a delay. It cannot be withdrawn: let it look whether it is still wanted. From any thread.
  void After(std::chrono::milliseconds delay, std::function<void()> work);

  /// Asio's context and thread, for socket.cpp.
  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace ringside::client
