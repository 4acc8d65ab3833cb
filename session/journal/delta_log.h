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
  struct Left {
    std::string session;
    JournalPosition after;  // without bytes
    std::vector<JournalRecord> records;
  };

  /// Locks the folder and starts the thread. A damaged log is dropped: its answers end where the store's do. `master`
  /// encrypts it. ERRORS: kBusy: another process has the folder; kIo.
  static Result<std::unique_ptr<DeltaLog>> Open(const std::string& path, const std::optional<SealKey>& master);
  ~DeltaLog();
  /// Carries out what is queued, and ends the thread; later calls do nothing.
  void Close();
  DeltaLog(const DeltaLog&) = delete;
  DeltaLog& operator=(const DeltaLog&) = delete;

  /// Incarnation (SharedLog) of the last process with this folder, if it ran since the machine's start. It has ended,
  /// because this one has the lock.
  std::optional<int64_t> Predecessor() const { return predecessor_; }
  /// Records that earlier processes wrote and did not forget.
  Result<std::vector<Left>> ReadLeft() const;
  /// Drops them, and notes this process. REQUIRES: before the first Keep.
  Status Begin(int64_t incarnation);
  /// Whether clients may be told what only this log has: the store may have lost it to another server.
  enum class Tell { kNow, kLater, kNever };
  /// Asked before each `done` of Keep, at once and, while kLater, again. To be called once, before the first Keep.
  void TellIf(std::function<Tell()> tell) { tell_ = std::move(tell); }

  // Calls of one thread are carried out in order, on the log's thread. They never block. THREAD: any.
  /// Writes a record that follows `after` and those kept before, then calls `done`, also if that fails: a client waits.
  /// `done` is dropped if clients may never be told, or not before the log ends.
  void Keep(const std::string& session, const JournalPosition& after, const JournalRecord& record,
            std::function<void()> done);
  /// Drops the session's records: the store has them.
  void Forget(const std::string& session);
  void Post(std::function<void()> done);
  /// Waits for the calls before; false after `most` without that. THREAD: any but the log's.
  bool Flush(std::optional<std::chrono::milliseconds> most = std::nullopt);

  /// Removes the bytes of forgotten turns from the disk. Blocks.
  Status Purge();

 private:
  struct Step {
    std::string row = {}, value = {};  // written; "" = none
    std::string forgotten = {};        // session; "" = none
    std::function<void()> done = {};
  };
  explicit DeltaLog(const std::optional<SealKey>& master);
  Status OpenFolder(const std::string& path);
  void Run();
  void Write(const std::vector<Step>& steps);
  /// Waits until clients may be told; false = never.
  bool WaitToTell() const;

  const DataKey key_;
  std::unique_ptr<rocksdb::DB> db_;
  std::optional<int64_t> predecessor_;
  std::function<Tell()> tell_;
  std::atomic<uint64_t> next_{0};  // number of a row
  std::atomic<bool> closing_{false};
  bool failed_ = false;          // the thread's
  BoundedQueue<Step> queue_{1};  // PushUrgent ignores the capacity: answers bound it
  std::thread thread_;
};

}  // namespace ringside
