// Notices at once when a process of this machine ends, whatever ends it, by its pidfd. Owned by the processes' group; one
// thread makes, starts and destroys it.
#pragma once

#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace ringside {

class ExitWatch {
 public:
  /// How a process names itself to another one; plain bytes.
  struct Process {
    int64_t pid = 0;
    uint64_t pid_namespace = 0;  // a pid means nothing in another one
  };
  static Process Self();

  ExitWatch() = default;
  ~ExitWatch();
  ExitWatch(const ExitWatch&) = delete;
  ExitWatch& operator=(const ExitWatch&) = delete;

  /// Before Start. False where the process cannot be watched: it has ended, is in another PID namespace, or the kernel
  /// has no pidfds. REQUIRES: the process is known to run after Add, or its pid may be another's by then.
  bool Add(int number, const Process& process);
  /// Calls `on_exit(number)` for every process that has ended or ends, once each, until this is destroyed.
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
