#include "ws/app/app_progress.h"

#include <utility>

#include "base/log.h"
#include "ws/app/app_watchdog.h"

namespace ringside {

ProgressReport::ProgressReport(std::string what) : what_(std::move(what)) {
  LogInfo("{} ...", what_);
  NotifyStatus(what_);
  thread_ = std::thread([this] {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, std::chrono::seconds(5), [this] { return done_; })) {
      LogInfo("{} ... {:.0f} s", what_, Seconds());
    }
  });
}

ProgressReport::~ProgressReport() {
  {
    std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
  thread_.join();
  if (Seconds() >= 1) LogInfo("{}: {:.1f} s", what_, Seconds());
}

double ProgressReport::Seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

}  // namespace ringside
