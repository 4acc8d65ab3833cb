// Lets long work notice that its client has disconnected. The transport installs the check; long work polls it and
// stops. THREAD: each thread has its own check.
#pragma once

#include <functional>
#include <utility>

namespace ringside {

class RequestWatch {
 public:
  /// Installs `client_left` for this thread until destruction. `client_left` must be cheap: it is polled often.
  explicit RequestWatch(std::function<bool()> client_left)
      : client_left_(std::move(client_left)), before_(std::exchange(current_, this)) {}
  ~RequestWatch() { current_ = before_; }
  RequestWatch(const RequestWatch&) = delete;
  RequestWatch& operator=(const RequestWatch&) = delete;

  /// False if no check is installed.
  static bool ClientLeft() { return current_ != nullptr && current_->client_left(); }
  /// This thread's check, to install on a thread that works on its behalf; null if there is none.
  static const RequestWatch* Current() { return current_; }
  bool client_left() const { return client_left_(); }

 private:
  static inline thread_local const RequestWatch* current_ = nullptr;
  const std::function<bool()> client_left_;
  const RequestWatch* const before_;
};

}  // namespace ringside
