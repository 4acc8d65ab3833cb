// The threads that do what may take long, so that no io thread does: reading and parsing requests, tokenising, looking
// up what is stored, waiting for a sync. No client holds all of them, nor all of the queue. Owned by the Server; any
// thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/status.h"

namespace ringside {

struct WorkerPoolOptions {
  int threads = 2;
  size_t queue_calls = 1024;  // that wait; of one client half as many
  size_t queue_bytes = 256 << 20;
  size_t large_bytes = 64 << 10;  // larger calls leave a worker to others
};

struct WorkerPoolStats {
  size_t calls = 0, bytes = 0;  // that wait now
  uint64_t refused = 0;         // calls, since the start
};

class WorkerPool {
 public:
  explicit WorkerPool(const WorkerPoolOptions& options);
  ~WorkerPool() { Stop(); }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// Runs `call` on a worker. Clients take turns, and the calls of one are begun in their order. With more than one
  /// thread, one is left by every client to the others, and by calls of many `bytes`, which is what they hold, to small
  /// ones. kUnavailable, and the call never runs: too much waits, of everyone together or, at half of that, of this
  /// client; or Stop has been called.
  Status Submit(const std::string& client, size_t bytes, std::function<void()> call);
  /// Waits for the calls that run, drops those that wait.
  void Stop();
  WorkerPoolStats stats() const;

 private:
  struct Call {
    size_t bytes;
    std::function<void()> run;
  };
  struct Client {
    std::deque<Call> waiting;
    size_t bytes = 0;  // of what waits
    int running = 0;
  };

  bool IsLarge(size_t bytes) const { return bytes > options_.large_bytes; }
  void Work();
  /// The client whose turn it is, taken out of the line; end() if none may have another worker now.
  std::unordered_map<std::string, Client>::iterator TakeTurn();

  const WorkerPoolOptions options_;
  const int most_running_;  // calls of one client, and large ones
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<std::string, Client> clients_;  // those that wait or run
  std::deque<std::string> line_;                     // clients with waiting calls, each once
  int large_running_ = 0;
  size_t calls_ = 0, bytes_ = 0;  // that wait
  uint64_t refused_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ringside
