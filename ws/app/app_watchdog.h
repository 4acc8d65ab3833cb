// Notifies the service manager by systemd's protocol: status, ready, reloading, stopping and keep-alives. Does nothing
// without $NOTIFY_SOCKET; sends no keep-alives without $WATCHDOG_USEC. Owned by RunServer.
// THREAD: the owner's, except NotifyStatus.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ringside {

/// Sends one line for `systemctl status`.
/// THREAD: any.
void NotifyStatus(const std::string& line);
void NotifyReady(const std::string& status);
/// NotifyReady follows after everything has been reloaded.
void NotifyReloading();
/// Extends the stop timeout to `time`, whatever the service manager's own limit is.
void NotifyStopping(std::chrono::microseconds time);

/// Sends keep-alives to the service manager while every watched part responds.
class Watchdog {
 public:
  struct Part {
    std::string name;  // as in a sentence: "the engine"
    /// Arranges that the watched thread calls `alive`, unless it hangs. Must not block.
    std::function<void(std::function<void()> alive)> ask;
  };

  /// Uses the interval of $WATCHDOG_USEC, within which one keep-alive is due; sends three per interval.
  explicit Watchdog(std::vector<Part> parts);

  /// To be called often; acts once per third of the interval. If every part has answered its last request, sends a
  /// keep-alive with `status` as the line and asks again; otherwise the line, and once the log, name the part that does
  /// not answer.
  void Tick(const std::function<std::string()>& status);

 private:
  struct Watched {
    Part part;
    std::shared_ptr<std::atomic<bool>> alive;  // shared with an answer that may arrive late
  };

  std::string Silent() const;
  void Ask();

  std::vector<Watched> watched_;
  std::chrono::microseconds interval_{0};  // 0 = no watchdog
  std::chrono::steady_clock::time_point next_;
  bool silent_ = false;
};

}  // namespace ringside
