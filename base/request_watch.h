// Whether the client of the request that a thread serves is still connected. The transport installs the check; long
// work polls it and stops. THREAD: each thread sees its own.
#pragma once

#include <functional>
#include <utility>

namespace ringside {

class RequestWatch {
 public:
  /// Until it is destroyed, `client_left` answers for this thread. It may be asked often.
  explicit RequestWatch(std::function<bool()> client_left)
      : client_left_(std::move(client_left)), before_(std::exchange(current_, this)) {}
  ~RequestWatch() { current_ = before_; }
  RequestWatch(const RequestWatch&) = delete;
  RequestWatch& operator=(const RequestWatch&) = delete;

  /// False if no check is installed.
  static bool ClientLeft() { return current_ != nullptr && current_->client_left(); }
  /// This thread's check, to be installed on another thread that works for it; null if there is none.
  static const RequestWatch* Current() { return current_; }
  bool client_left() const { return client_left_(); }

 private:
  static inline thread_local const RequestWatch* current_ = nullptr;
  const std::function<bool()> client_left_;
  const RequestWatch* const before_;
};

}  // namespace ringside
