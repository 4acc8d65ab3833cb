#include "ws/app/app_watchdog.h"

#include <systemd/sd-daemon.h>

#include <cstdint>
#include <ctime>
#include <utility>

#include "base/log.h"

namespace ringside {
namespace {

constexpr int kKeepEnvironment = 0;
constexpr int kTendsPerInterval = 3;  // so that one late keep-alive does no harm

/// A lost message is ignored: its receiver is gone.
void Notify(const std::string& state) { (void)sd_notify(kKeepEnvironment, state.c_str()); }

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
  uint64_t interval_us = 0;
  if (sd_watchdog_enabled(kKeepEnvironment, &interval_us) <= 0) return;
  interval_ = std::chrono::microseconds(interval_us / kTendsPerInterval);
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
