// Blocks calls until a test opens the gate.
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <thread>

namespace ringside {

class Gate {
 public:
  std::function<void()> Call() {
    return [this, opened = opened_] {
      ++entered_;
      opened.wait();  // the gate may be destroyed by then
    };
  }
  void Open() { open_.set_value(); }
  /// Waits until `count` calls have entered.
  void WaitEntered(int count) const {
    while (entered_ < count) std::this_thread::yield();
  }
  int entered() const { return entered_; }

 private:
  std::promise<void> open_;
  std::shared_future<void> opened_{open_.get_future()};
  std::atomic<int> entered_{0};
};

}  // namespace ringside
