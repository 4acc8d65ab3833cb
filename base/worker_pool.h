// The threads that parse requests, tokenise and look up stored conversations, so that no io thread does. A call that
// waits for the disk (DiskWait) leaves its place to another call, so that a slow disk does not hold up calls that need
// none. Long work inside a call (RunLongWork) runs on other threads, shared fairly, and its call leaves its place
// meanwhile, too. No client holds all threads, all of the queue, or all waits. Owned by the Server; any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/long_work.h"
#include "base/status.h"

namespace ringside {

struct WorkerPoolOptions {
  int threads = 2;
  size_t queue_calls = 1024;  // that wait; of one client half as many
  size_t queue_bytes = 256 << 20;
  size_t large_bytes = 64 << 10;  // larger calls leave a worker to others
  size_t disk_waits = 64;         // calls that wait for the disk at once; one client may have half
  // Beyond disk_waits another wait is refused once the oldest has lasted this long; until then it waits for a place.
  std::chrono::milliseconds disk_patience{1'000};
  size_t long_calls_of_client = 32, long_calls = 128;  // that wait for long work
};

struct WorkerPoolStats {
  size_t calls = 0, bytes = 0;  // that wait now
  uint64_t refused = 0;         // calls, waits for the disk and long work, since the start
  size_t disk_waits = 0;        // calls that wait for the disk now
  size_t long_calls = 0;        // calls whose long work waits or runs
  int64_t longest_call_ms = 0;  // of the calls that run, but for waits and long work
  int64_t stalled_ms = 0;       // time since a worker was last free, while all are busy
};

class WorkerPool;

/// A wait for the disk inside a call of a WorkerPool: another call runs in its place while it lives. Does nothing on
/// other threads, and inside another wait.
class DiskWait {
 public:
  /// ERRORS: kUnavailable, before anything is waited for: too many calls, of this client or of all, wait for a disk
  /// that does not answer. Blocks for WorkerPoolOptions::disk_patience at most.
  static Result<DiskWait> Begin();
  DiskWait(DiskWait&& other) noexcept : pool_(std::exchange(other.pool_, nullptr)) {}
  DiskWait& operator=(DiskWait&&) = delete;
  ~DiskWait() { End(); }
  void End();

 private:
  explicit DiskWait(WorkerPool* pool) : pool_(pool) {}
  WorkerPool* pool_;
};

/// Runs work that may take long and whose length the client chooses, without holding up other calls: inside a call of
/// a WorkerPool on its LongWorkLane, another call runs in its place meanwhile; on other threads, and inside a wait for
/// the disk, at once. The caller holds no lock that calls of other clients need.
/// ERRORS: as LongWorkLane::Run; kUnavailable if there is no thread left. The work has not run then.
Status RunLongWork(const std::function<void()>& work);

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
  friend class DiskWait;
  friend Status RunLongWork(const std::function<void()>& work);
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Call {
    size_t bytes;
    std::function<void()> run;
  };
  struct Client {
    std::deque<Call> waiting;
    size_t bytes = 0;  // of what waits
    int running = 0;
    size_t disk_waits = 0, long_calls = 0;
    uint64_t share = 0;  // on the clock, what its calls up to the next one come to
    bool gone() const { return waiting.empty() && running == 0 && disk_waits == 0 && long_calls == 0; }
  };
  /// The call that a thread runs; on its stack.
  struct Running {
    WorkerPool* pool;
    const std::string client;
    const bool large;
    bool waits = false;  // for the disk, or for long work
    std::multiset<TimePoint>::iterator since = {};
  };
  static thread_local Running* running_here_;

  bool IsLarge(size_t bytes) const { return bytes > options_.large_bytes; }
  /// REQUIRES: mutex_, for these four.
  void StartThread();
  /// Starts a thread for the call that takes the place of one that waits, if none is left over. kUnavailable if the
  /// system has none.
  Status StartSpareThread();
  void Occupy(Running& call);
  void Release(Running& call);
  /// For the call that the calling thread runs.
  Status BeginDiskWait();
  void EndDiskWait();
  Status RunLong(const std::function<void()>& work);
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
  int running_ = 0, large_running_ = 0;
  std::multiset<TimePoint> running_since_, waits_since_;
  std::optional<TimePoint> busy_since_;  // since when no worker has been free
  std::condition_variable wait_ended_;
  WorkerPoolStats counts_;  // of calls
  bool stopping_ = false;
  std::vector<std::thread> threads_;  // one more for each call that has waited at once
  LongWorkLane long_work_;
};

}  // namespace ringside
