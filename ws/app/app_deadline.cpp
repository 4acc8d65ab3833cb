#include "ws/app/app_deadline.h"

#include <unistd.h>

#include "base/log.h"

namespace ringside {

StopDeadline::StopDeadline(std::chrono::milliseconds time, int exit_code) {
  thread_ = std::thread([this, time, exit_code] {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, time, [this] { return stopped_; })) return;
    LogError("the shutdown hangs: exiting now; unsaved caches will be recomputed");
    _exit(exit_code);
  });
}

StopDeadline::~StopDeadline() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

}  // namespace ringside
