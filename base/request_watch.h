// Whether anybody still waits for the request that a thread works on. Whoever begins the work says how to find out;
// long work asks now and then, and stops. Of one thread.
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

  /// False where nobody said how to find out.
  static bool ClientLeft() { return current_ != nullptr && current_->client_left_(); }

 private:
  static inline thread_local const RequestWatch* current_ = nullptr;
  const std::function<bool()> client_left_;
  const RequestWatch* const before_;
};

}  // namespace ringside
