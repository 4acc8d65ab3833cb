#include "session/postgres/stop_signal.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

#include "base/check.h"

namespace ringside {

StopSignal::StopSignal() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) { CHECK(fd_ >= 0); }
StopSignal::~StopSignal() { close(fd_); }

void StopSignal::Request() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof one);  // fails only if it is requested already
}

bool StopSignal::requested() const { return !Sleep(std::chrono::milliseconds(0)); }

bool StopSignal::Sleep(std::chrono::milliseconds time) const {
  pollfd wait = {fd_, POLLIN, 0};
  return poll(&wait, 1, static_cast<int>(time.count())) <= 0;
}

}  // namespace ringside
