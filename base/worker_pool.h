// The threads that parse requests, tokenize and look up stored conversations, so that I/O threads never do. A call that
// waits for the disk (DiskWait) yields its place, so that a slow disk does not hold up calls that need none. Long work
// inside a call (RunLongWork) runs on other threads, shared fairly, and its call yields its place meanwhile, too. No
// client can occupy all threads, the whole queue, or all waits. Owned by the Server. THREAD: any.
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
  size_t queue_calls = 1024;  // queued calls; half of that for one client
  size_t queue_bytes = 256 << 20;
  size_t large_bytes = 64 << 10;  // calls above this size always leave one worker free
  size_t disk_waits = 64;         // concurrent disk waits; one client may have half
  // When disk_waits is reached, another wait is refused if the oldest has lasted this long; otherwise it blocks for a
  // place.
  std::chrono::milliseconds disk_patience{1'000};
  size_t long_calls_of_client = 32, long_calls = 128;  // queued long work
};

struct WorkerPoolStats {
  size_t calls = 0, bytes = 0;  // currently queued
  uint64_t refused = 0;         // calls, disk waits and long work, since the start
  size_t disk_waits = 0;        // current disk waits
  size_t long_calls = 0;        // calls whose long work is queued or running
  int64_t longest_call_ms = 0;  // longest running call, without its waits and long work
  int64_t stalled_ms = 0;       // time since a worker was last free, while all are busy
};

class WorkerPool;

/// Scope guard for a disk wait inside a call of a WorkerPool: another call runs in its place. No effect on other
/// threads or inside another wait.
class DiskWait {
 public:
  /// Blocks for at most WorkerPoolOptions::disk_patience. ERRORS: kUnavailable, before any I/O: too many calls, of this
  /// client or in total, wait for a disk that does not answer.
  static Result<DiskWait> Begin();
  DiskWait(DiskWait&& other) noexcept : pool_(std::exchange(other.pool_, nullptr)) {}
  DiskWait& operator=(DiskWait&&) = delete;
  ~DiskWait() { End(); }
  void End();

 private:
  explicit DiskWait(WorkerPool* pool) : pool_(pool) {}
  WorkerPool* pool_;
};

/// Runs long work whose cost the client chooses, without holding up other calls. Inside a call of a WorkerPool it runs
/// on the LongWorkLane, and another call takes this call's place; on other threads and inside a disk wait it runs
/// inline.
/// REQUIRES: the caller holds no lock that calls of other clients need.
/// ERRORS: as LongWorkLane::Run; kUnavailable if no thread can be started. `work` has not run then.
Status RunLongWork(const std::function<void()>& work);

class WorkerPool {
 public:
  explicit WorkerPool(const WorkerPoolOptions& options);
  ~WorkerPool() { Stop(); }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// Runs `call` on a worker. Self-clocked fair queueing over clients, weighted by `bytes` (the memory that the call
  /// holds): a large call waits until every other client has had its fair share, and no longer; equal calls alternate.
  /// A client's calls start in order. With more than one thread, each client leaves one thread to the others, and large
  /// calls leave one to small ones.
  /// ERRORS: kUnavailable, and `call` never runs, if the queue is full (a client may fill half) or after Stop.
  Status Submit(const std::string& client, size_t bytes, std::function<void()> call);
  /// Waits for running calls and drops queued ones.
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
    size_t bytes = 0;  // of the queued calls
    int running = 0;
    size_t disk_waits = 0, long_calls = 0;
    uint64_t share = 0;  // virtual finish time of the call at the head
    bool gone() const { return waiting.empty() && running == 0 && disk_waits == 0 && long_calls == 0; }
  };
  /// The call that a thread runs; on that thread's stack.
  struct Running {
    WorkerPool* pool;
    const std::string client;
    const bool large;
    bool waits = false;  // yielded for the disk or for long work
    std::multiset<TimePoint>::iterator since = {};
  };
  static thread_local Running* running_here_;

  bool IsLarge(size_t bytes) const { return bytes > options_.large_bytes; }
  /// REQUIRES: mutex_, for these four.
  void StartThread();
  /// Starts a thread, if none is spare, for the call that replaces a waiting one. ERRORS: kUnavailable if the system
  /// has none.
  Status StartSpareThread();
  void Occupy(Running& call);
  void Release(Running& call);
  /// Apply to the call on the calling thread.
  Status BeginDiskWait();
  void EndDiskWait();
  Status RunLong(const std::function<void()>& work);
  void Work();
  /// Queues the client by the virtual finish time of its first call.
  void EnqueueClient(const std::string& name, Client& client);
  /// Dequeues the next client; end() if no client may have another worker now.
  std::unordered_map<std::string, Client>::iterator DequeueClient();

  const WorkerPoolOptions options_;
  const int max_running_;  // limit for one client, and for large calls
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<std::string, Client> clients_;            // clients with queued or running calls
  std::map<std::pair<uint64_t, uint64_t>, std::string> line_;  // queue of clients, by virtual finish time and arrival
  uint64_t clock_ = 0;                                         // virtual time: that of the call started last
  uint64_t arrivals_ = 0;
  int running_ = 0, large_running_ = 0;
  std::multiset<TimePoint> running_since_, waits_since_;
  std::optional<TimePoint> busy_since_;  // time since which no worker has been free
  std::condition_variable wait_ended_;
  WorkerPoolStats counts_;  // calls
  bool stopping_ = false;
  std::vector<std::thread> threads_;  // grows by one for each concurrent wait
  LongWorkLane long_work_;
};

}  // namespace ringside
