// Detects at once, by pidfd, when a process of this machine exits for any reason. Owned by the process group.
// THREAD: one thread makes, starts and destroys it.
#pragma once

#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace ringside {

class ExitWatch {
 public:
  /// A process's identity as sent to another process; plain bytes.
  struct Process {
    int64_t pid = 0;
    uint64_t pid_namespace = 0;  // a pid is meaningless in another namespace
  };
  static Process Self();

  ExitWatch() = default;
  ~ExitWatch();
  ExitWatch(const ExitWatch&) = delete;
  ExitWatch& operator=(const ExitWatch&) = delete;

  /// Adds a process to watch. Returns false if it cannot be watched: it has exited, is in another PID namespace, or the
  /// kernel has no pidfds.
  /// REQUIRES: called before Start. The caller verifies after Add that the process still runs, since its pid may have
  /// been reused.
  bool Add(int number, const Process& process);
  /// Calls `on_exit(number)` once for every process that has exited or exits later, until this is destroyed.
  /// THREAD: a new one.
  void Start(std::function<void(int number)> on_exit);

 private:
  struct Watched {
    int number = 0, pidfd = -1;
  };
  void Watch(const std::function<void(int)>& on_exit);

  std::vector<Watched> watched_;
  int stop_ = -1;  // an eventfd
  std::thread thread_;
};

}  // namespace ringside
