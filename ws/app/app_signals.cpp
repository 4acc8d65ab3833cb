#include "ws/app/app_signals.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "base/log.h"

namespace ringside {
namespace {

sigset_t WatchedSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

SignalWatcher::SignalWatcher() {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  const sigset_t set = WatchedSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { Watch(); });
}

SignalWatcher::~SignalWatcher() {
  ending_ = true;
  thread_.join();
}

void SignalWatcher::Defer() {
  std::lock_guard lock(mutex_);
  deferred_ = true;
}

bool SignalWatcher::Wait(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [this] { return received_; });
}

void SignalWatcher::Watch() {
  const sigset_t set = WatchedSignals();
  // Short waits, so that the destructor need not signal its own thread.
  const timespec step{0, 100'000'000};
  while (!ending_) {
    const int number = sigtimedwait(&set, nullptr, &step);
    if (number < 0) continue;
    if (number == SIGHUP) {
      hangup_ = true;
      continue;
    }
    std::lock_guard lock(mutex_);
    if (!deferred_) {
      LogInfo("stopped while starting");
      _exit(0);
    }
    if (received_) {
      LogWarning("second signal: exiting now");
      _exit(128 + number);
    }
    received_ = true;
    changed_.notify_all();
  }
}

}  // namespace ringside
