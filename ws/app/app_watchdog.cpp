#include "ws/app/app_watchdog.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <utility>

#include "base/log.h"

namespace ringside {
namespace {

constexpr int kTendsPerInterval = 3;  // so that one late keep-alive does no harm
constexpr timeval kLongestSend = {.tv_sec = 5, .tv_usec = 0};

std::string_view Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

/// 0 if it is not a number.
uint64_t NumberIn(std::string_view text) {
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// Sends a datagram to $NOTIFY_SOCKET: a path, or '@' and an abstract name. A lost message is ignored: its receiver is
/// gone.
void Notify(const std::string& state) {
  const std::string_view place = Environment("NOTIFY_SOCKET");
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  if (place.empty() || place.size() >= sizeof(address.sun_path)) return;
  place.copy(address.sun_path, place.size());
  if (place.front() == '@') address.sun_path[0] = '\0';
  const int to = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (to < 0) return;
  setsockopt(to, SOL_SOCKET, SO_SNDTIMEO, &kLongestSend, sizeof(kLongestSend));
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + place.size());
  (void)sendto(to, state.data(), state.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address), size);
  close(to);
}

/// The interval of $WATCHDOG_USEC; 0 without one, or if it is for another process.
uint64_t WatchdogMicroseconds() {
  const std::string_view process = Environment("WATCHDOG_PID");
  if (!process.empty() && NumberIn(process) != static_cast<uint64_t>(getpid())) return 0;
  return NumberIn(Environment("WATCHDOG_USEC"));
}

/// The clock by which the service manager orders a reload and its end.
int64_t MonotonicMicroseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1'000;
}

}  // namespace

void NotifyStatus(const std::string& line) { Notify("STATUS=" + line); }
void NotifyReady(const std::string& status) { Notify("READY=1\nSTATUS=" + status); }
void NotifyReloading() { Notify("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(MonotonicMicroseconds())); }
void NotifyStopping(std::chrono::microseconds time) {
  Notify("STOPPING=1\nSTATUS=stopping\nEXTEND_TIMEOUT_USEC=" + std::to_string(time.count()));
}

Watchdog::Watchdog(std::vector<Part> parts) {
  for (Part& part : parts) watched_.push_back({std::move(part), std::make_shared<std::atomic<bool>>(true)});
  interval_ = std::chrono::microseconds(WatchdogMicroseconds() / kTendsPerInterval);
}

std::string Watchdog::Silent() const {
  std::string names;
  for (const Watched& watched : watched_) {
    if (!*watched.alive) names += (names.empty() ? "" : " and ") + watched.part.name;
  }
  return names;
}

void Watchdog::Ask() {
  for (Watched& watched : watched_) {
    *watched.alive = false;
    watched.part.ask([alive = watched.alive] { *alive = true; });
  }
}

void Watchdog::Tick(const std::function<std::string()>& status) {
  const auto now = std::chrono::steady_clock::now();
  if (interval_.count() == 0 || now < next_) return;
  next_ = now + interval_;
  if (const std::string silent = Silent(); !silent.empty()) {
    if (!std::exchange(silent_, true)) {
      LogError("watchdog: {} does not answer; keep-alives are suspended until it answers", silent);
    }
    return NotifyStatus("no answer from " + silent);
  }
  if (std::exchange(silent_, false)) LogInfo("watchdog: all parts answer again");
  Notify("WATCHDOG=1\nSTATUS=" + status());
  Ask();
}

}  // namespace ringside
