// The text of running answers that a shared store does not have yet. With durability "turn" a step's tokens are written
// here before a client receives them, and to the store at the end of the turn. The rows are not synced: they survive
// the process, not the machine. Owns a folder and one thread. Owned by the Journal.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/bounded_queue.h"
#include "session/journal/journal_keys.h"

namespace rocksdb {
class DB;
}

namespace ringside {

class DeltaLog {
 public:
  /// Records of a session's running turn that follow its record `after`, in order.
  struct Unfinished {
    std::string session;
    JournalPosition after;  // without bytes
    std::vector<JournalRecord> records;
  };

  /// Locks the folder and starts the thread. A damaged log is dropped: its answers end where the store's do. `master`
  /// encrypts it. ERRORS: kBusy: another process has the folder; kIo.
  static Result<std::unique_ptr<DeltaLog>> Open(const std::string& path, const std::optional<SealKey>& master);
  ~DeltaLog();
  /// Executes the queued calls and ends the thread; later calls do nothing.
  void Close();
  DeltaLog(const DeltaLog&) = delete;
  DeltaLog& operator=(const DeltaLog&) = delete;

  /// Incarnation (SharedLog) of the last process with this folder, if it ran since the machine's start. It has ended,
  /// because this one has the lock.
  std::optional<int64_t> Predecessor() const { return predecessor_; }
  /// Running turns of earlier processes.
  Result<std::vector<Unfinished>> ReadUnfinished() const;
  /// Drops them, and notes this process. REQUIRES: before the first Append.
  Status Begin(int64_t incarnation);
  /// Whether clients may receive text that the store lacks: another server may have taken over the session.
  enum class Delivery { kNow, kLater, kNever };
  /// `delivery` is called before each `done` of Append, and again while it returns kLater. To be called once, before
  /// the first Append.
  void DeliverIf(std::function<Delivery()> delivery) { delivery_ = std::move(delivery); }

  // Calls of one thread are carried out in order, on the log's thread. They never block. THREAD: any.
  /// Writes a record that follows `after` and those appended before, then calls `done`, also if that fails: a client
  /// waits. `done` is dropped if DeliverIf's function returns kNever, or kLater until the log is closed.
  void Append(const std::string& session, const JournalPosition& after, const JournalRecord& record,
              std::function<void()> done);
  /// Drops the session's records: the store has them.
  void Erase(const std::string& session);
  void Post(std::function<void()> done);
  /// Waits for the calls before; false after `most` without that. THREAD: any but the log's.
  bool Flush(std::optional<std::chrono::milliseconds> most = std::nullopt);

  /// Removes the bytes of erased records from the disk. Blocks.
  Status Purge();

 private:
  struct Step {
    std::string row = {}, value = {};  // written; "" = none
    std::string erased = {};           // session; "" = none
    std::function<void()> done = {};
  };
  explicit DeltaLog(const std::optional<SealKey>& master);
  Status OpenFolder(const std::string& path);
  void Run();
  void Write(const std::vector<Step>& steps);
  /// Waits while delivery is kLater; false = kNever, or the log is being closed.
  bool WaitToDeliver() const;

  const DataKey key_;
  std::unique_ptr<rocksdb::DB> db_;
  std::optional<int64_t> predecessor_;
  std::function<Delivery()> delivery_;
  std::atomic<uint64_t> next_{0};  // number of a row
  std::atomic<bool> closing_{false};
  bool failed_ = false;          // the thread's
  BoundedQueue<Step> queue_{1};  // PushUrgent ignores the capacity: answers bound it
  std::thread thread_;
};

}  // namespace ringside
