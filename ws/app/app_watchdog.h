// What the service manager hears of this process, by systemd's notification protocol: what it is doing, that it is
// ready, reloading or stopping, and again and again that it is alive. Nothing is told where nobody listens: without
// $NOTIFY_SOCKET, or of life without $WATCHDOG_USEC. Owned by RunServer; its thread only, but for NotifyStatus.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ringside {

/// One line, as `systemctl status` shows it. Any thread.
void NotifyStatus(const std::string& line);
void NotifyReady(const std::string& status);
/// NotifyReady follows once everything has been read again.
void NotifyReloading();
/// The stop may take so long, whatever the service manager's own limit is.
void NotifyStopping(std::chrono::microseconds time);

/// Tells the service manager that the process is alive, as long as every part of it that is watched answers.
class Watchdog {
 public:
  struct Part {
    std::string name;  // "the engine", for a sentence
    /// Has `alive` called by the thread that is watched, or never. Must not block.
    std::function<void(std::function<void()> alive)> ask;
  };

  /// With the interval of $WATCHDOG_USEC, in which one sign of life has to come: a third of it lies between two.
  explicit Watchdog(std::vector<Part> parts);

  /// To be called often: does something at the end of each third only. Sends the sign of life, with `status` for the
  /// line, if every part has answered what it was asked the time before, and asks again. Else the line, and once the
  /// log, tell which part does not answer.
  void Tend(const std::function<std::string()>& status);

 private:
  struct Watched {
    Part part;
    std::shared_ptr<std::atomic<bool>> alive;  // shared with an answer that may come late
  };

  std::string Silent() const;
  void Ask();

  std::vector<Watched> watched_;
  std::chrono::microseconds interval_{0};  // 0 = nobody watches
  std::chrono::steady_clock::time_point next_;
  bool silent_ = false;
};

}  // namespace ringside
