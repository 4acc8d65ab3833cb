// The threads that do what may take long, so that no io thread does: reading and parsing requests, tokenising, looking
// up what is stored, waiting for a sync. No client holds all of them, nor all of the queue. Owned by the Server; any
// thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
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

  /// Runs `call` on a worker. Clients share the workers by `bytes`, which is what their calls hold (self-clocked fair
  /// queueing): a large call waits until every other client has had as much, and no longer; equal ones take turns. The
  /// calls of one client are begun in their order. With more than one thread, one is left by every client to the
  /// others, and by large calls to small ones. kUnavailable, and the call never runs: too much waits, of everyone
  /// together or, at half of that, of this client; or Stop has been called.
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
    uint64_t share = 0;  // on the clock, what its calls up to the next one come to
  };

  bool IsLarge(size_t bytes) const { return bytes > options_.large_bytes; }
  void Work();
  /// Puts the client into the line for the call that it has in front.
  void StandInLine(const std::string& name, Client& client);
  /// The client whose turn it is, taken out of the line; end() if none may have another worker now.
  std::unordered_map<std::string, Client>::iterator TakeTurn();

  const WorkerPoolOptions options_;
  const int most_running_;  // calls of one client, and large ones
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<std::string, Client> clients_;            // those that wait or run
  std::map<std::pair<uint64_t, uint64_t>, std::string> line_;  // clients with waiting calls, by share and arrival
  uint64_t clock_ = 0;                                         // the share of the call that was begun last
  uint64_t arrivals_ = 0;
  int large_running_ = 0;
  size_t calls_ = 0, bytes_ = 0;  // that wait
  uint64_t refused_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ringside
