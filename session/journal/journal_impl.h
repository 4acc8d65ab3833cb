// The journal's thread and what it knows; session/journal/journal.h describes the calls. Included by journal*.cpp only.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/bounded_queue.h"
#include "session/journal/accepted_entries.h"
#include "session/journal/journal.h"
#include "session/journal/journal_keys.h"
#include "session/journal/journal_line.h"
#include "session/journal/journal_log.h"
#include "session/journal/journal_reader.h"
#include "session/journal/shared_log.h"

namespace ringside {

/// kInvalidArgument for an id that no session can have.
Status CheckSessionId(std::string_view session);
Status SessionExists(std::string_view session);

/// Splits a batch so that no part creates a session that it erased before.
std::vector<std::vector<JournalOperation>> SplitAtNewNames(std::vector<JournalOperation> operations);
/// Reserves the names of new sessions; those that exist fail.
/// ERRORS: kIo, and every creation has failed.
Status ReserveNames(SharedLog& log, std::vector<JournalOperation>& operations);

class Journal::Impl {
 public:
  using Operation = JournalOperation;
  static Result<std::unique_ptr<Impl>> Open(const JournalOptions& options, std::optional<int64_t> predecessor);
  ~Impl();

  Status Append(JournalEntry entry, JournalDone done);
  /// Accepts an operation of the kinds that are never refused as overloaded.
  Status Order(Operation operation);
  /// `session`: only if it has entries.
  bool Flush(std::optional<std::chrono::milliseconds> most, const std::string* session = nullptr);
  int64_t UptimeMs() const;
  void NoteUptime();
  const JournalReader& reader() const { return *reader_; }
  SharedLog* shared() const { return shared_; }
  Status Claim(const std::string& session);
  Status Purge();
  Status Backup(const std::string& folder);
  JournalStats stats() const;
  bool healthy() const { return healthy_; }
  bool lost() const { return lost_; }
  Status Check();

 private:
  struct Known {  // a session; journal thread only
    JournalPosition last;
    bool head_changed = false;        // in the current batch
    std::optional<DataKey> key = {};  // loaded on first use
  };

  explicit Impl(const JournalOptions& options)
      : options_(options), keys_(options.master_key), opened_ns_(options.clock->MonotonicNs()) {}
  Status Start();
  Status CheckSchema();
  Status LoadHeads();
  void Run();
  void Commit(std::vector<Operation> operations);
  Status Stage(Operation& operation, std::vector<RowChange>& changes);
  Status StageErase(const std::string& session, std::vector<RowChange>& changes);
  /// Stops the journal if the store is lost.
  Status CheckPlace();
  RowChange UptimeRow();
  void Stop(const Status& status);
  Status StoppedStatus() const;
  /// Reason why entries are refused, as of the last check of the file system.
  Status Refusal() const;
  void Look();

  const JournalOptions options_;
  const JournalKeys keys_;
  BoundedQueue<Operation> queue_{1};  // capacity unused: entries are counted until they are reported
  JournalLine line_;
  std::unique_ptr<JournalLog> log_;
  SharedLog* shared_ = nullptr;  // of log_
  std::unique_ptr<JournalReader> reader_;
  uint64_t boot_ = 0, clean_boot_ = 0;  // shared store: this process's incarnation, unused
  const int64_t opened_ns_;
  int64_t earlier_uptime_ms_ = 0;            // of previous servers
  std::atomic<int64_t> noted_uptime_ms_{0};  // last written, or about to be
  std::unordered_map<std::string, Known> sessions_;
  std::vector<std::string> changed_;  // sessions whose head the batch must write
  std::atomic<bool> healthy_{true}, lost_{false};
  AcceptedEntries accepted_;
  std::atomic<bool> full_{false}, read_only_{false};  // as of the last check of the file system
  std::atomic<int64_t> free_bytes_{0};                // as of that check
  std::atomic<int64_t> next_look_ms_{0};              // on the steady clock
  std::atomic<int64_t> write_began_ms_{0};            // on the steady clock; 0 = none
  mutable std::mutex mutex_;                          // guards the following members
  JournalStats stats_;
  std::thread thread_;
};

}  // namespace ringside
