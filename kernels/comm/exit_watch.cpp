#include "kernels/comm/exit_watch.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/check.h"

namespace ringside {

ExitWatch::Process ExitWatch::Self() {
  struct stat pid_namespace {};
  if (stat("/proc/self/ns/pid", &pid_namespace) != 0) return {};
  return {getpid(), pid_namespace.st_ino};
}

ExitWatch::~ExitWatch() {
  if (thread_.joinable()) {
    CHECK_EQ(eventfd_write(stop_, 1), 0);
    thread_.join();
  }
  if (stop_ >= 0) close(stop_);
  for (const Watched& watched : watched_) close(watched.pidfd);
}

bool ExitWatch::Add(int number, const Process& process) {
  CHECK(!thread_.joinable());
  if (process.pid == 0 || process.pid_namespace != Self().pid_namespace) return false;
  const auto pidfd = static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(process.pid), 0U));
  if (pidfd < 0) return false;
  watched_.push_back({number, pidfd});
  return true;
}

void ExitWatch::Start(std::function<void(int number)> on_exit) {
  if (watched_.empty()) return;
  stop_ = eventfd(0, EFD_CLOEXEC);
  CHECK_GE(stop_, 0);
  thread_ = std::thread([this, on_exit = std::move(on_exit)] {
    pthread_setname_np(pthread_self(), "exits");
    Watch(on_exit);
  });
}

void ExitWatch::Watch(const std::function<void(int)>& on_exit) {
  std::vector<pollfd> looked = {{stop_, POLLIN, 0}};
  for (const Watched& watched : watched_) looked.push_back({watched.pidfd, POLLIN, 0});
  while (true) {
    if (poll(looked.data(), looked.size(), -1) < 0) {
      CHECK_EQ(errno, EINTR);
      continue;
    }
    if (looked.front().revents != 0) return;
    for (size_t i = 0; i < watched_.size(); ++i) {
      pollfd& one = looked[i + 1];
      if (one.revents == 0) continue;
      one.fd = -1;  // poll ignores it from now on
      one.revents = 0;
      on_exit(watched_[i].number);
    }
  }
}

}  // namespace ringside
