// Durable transcript: an append-only log of opaque records per session, protected by a hash chain, with group commit.
// Owns `<path>/log`, or this server's part of a store that several servers share, and one thread. Append and Erase may
// be called on any thread and never block; results are reported by callbacks on the journal's thread, in order, after
// the sync. Reads may be called on any thread and block. The rows are described in session/journal/journal_format.h.
// ENSURES: a record whose callback reported Ok exists after any crash, once, in order, and its chain verifies. A record
// that was not acknowledged exists completely or not at all. After a failed write or sync nothing is retried: the
// journal stops permanently (kIo from every call) and a restart is the recovery. It also stops if the folder, the log
// or its newest file is deleted, moved or replaced, which it checks after each sync and before the acknowledgement.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/limits.h"
#include "base/sealed_box.h"
#include "base/status.h"

namespace rocksdb {
class Env;
}

namespace ringside {

class DeltaLog;
class JournalLog;
class SharedLog;
struct RowChange;

inline constexpr size_t kMaxJournalSessionBytes = 128;  // of a session's id

/// XXH3-128 over all records of a session up to one of them.
struct JournalChain {
  uint64_t high = 0, low = 0;
  /// 32 lower-case hexadecimal digits.
  std::string Hex() const;
  friend bool operator==(const JournalChain&, const JournalChain&) = default;
};

/// Number of a record in its session, from 1, and the chain up to it. {0, FirstChain} = no record yet.
struct JournalPosition {
  uint64_t seq = 0;
  JournalChain chain;
  uint64_t bytes = 0;  // stored payload bytes up to this record; those of older versions are not counted
  friend bool operator==(const JournalPosition&, const JournalPosition&) = default;
};

struct JournalRecord {
  uint8_t type = 0;     // kind of payload, defined by the session layer
  std::string payload;  // at most kMaxJournalRecordBytes
  friend bool operator==(const JournalRecord&, const JournalRecord&) = default;
};

/// Plain columns by which a shared store finds a session (session/journal/shared_log.h); a folder does not keep them.
struct SessionLabel {
  std::string owner;
  bool conversation = false;  // listed; otherwise a chain
  double created_at = 0;
  double used_s = 0;  // by UptimeSeconds
};

/// An atomic change of one session.
struct JournalEntry {
  std::string session;                 // 1 .. kMaxJournalSessionBytes bytes
  bool create = false;                 // creates the session, which must not exist; otherwise it must exist
  std::vector<JournalRecord> records;  // in order; may be empty
  bool urgent = false;                 // of a running turn: accepted even if the queue is full
  std::optional<std::string> summary;  // replaces the session's summary, which is read at start
  std::optional<SessionLabel> label;   // with every summary
};

/// kCorruption (session_damaged), naming the session and the damage.
Status DamagedSession(std::string_view session, std::string_view what);

/// Called once per accepted entry on the journal's thread, in order of acceptance within one session; a large entry may
/// be reported after later ones of other sessions (session/journal/journal_line.h). `last` is the session's end after
/// the entry. Must not block.
using JournalDone = std::function<void(const Status& status, const JournalPosition& last)>;

struct JournalHead {
  std::string_view session;
  JournalPosition last;
  std::string_view summary;  // empty if unreadable
  std::string_view damage;   // known damage; "" = none
};

struct JournalSummary {
  JournalPosition last;
  int64_t writer = 0;  // in a shared store: incarnation of the process that wrote the last record
  std::string summary;
};

struct ListedSession {
  std::string session;
  JournalSummary stored;
  std::string damage;  // "" = none known
};

struct JournalTranscript {
  std::vector<JournalRecord> records;  // record i has number i + 1
  std::vector<JournalChain> chains;    // up to each record
  JournalPosition last;
  int64_t writer = 0;  // as in JournalSummary
  std::string summary;
};

struct JournalOptions {
  std::string path;  // data folder; created (0700) if missing
  /// Open even if acknowledged records at the end of the log are missing: the operator's decision, after making a copy.
  bool accept_lost_tail = false;
  size_t queue_entries = limits::kJournalQueueEntries;  // limit of accepted entries that have not been reported
  size_t queue_bytes = limits::kJournalQueueBytes;
  /// Below this free disk space, entries are refused (kUnavailable, reason "storage_full") before they are written;
  /// erasing continues.
  int64_t min_free_bytes = int64_t{64} << 20;
  int64_t space_look_ms = 200;  // minimum interval between Append's checks of the free space
  /// Encrypts the sessions' contents (session/journal/journal_format.h). A log is encrypted from its creation or never.
  std::optional<SealKey> master_key;
  rocksdb::Env* env = nullptr;  // file system; null = the machine's
  /// Opens another log than the folder's, or creates it with these rows. `predecessor`: DeltaLog::Predecessor.
  std::function<Result<std::unique_ptr<JournalLog>>(const std::vector<RowChange>& initial,
                                                    std::optional<int64_t> predecessor)>
      open_log;
  std::string deltas_path;                        // folder of the DeltaLog of a shared store; "" = none
  const Clock* clock = &SystemClock::Instance();  // outlives the journal; only its steady time is used
};

struct JournalStats {
  uint64_t commits = 0;  // synced batches
  uint64_t entries = 0;  // acknowledged
  uint64_t records = 0;  // in those entries
  uint64_t bytes = 0;    // payload bytes of those records
  uint64_t refused = 0;  // entries refused because of a full queue or too little space
  double sync_ms_total = 0, sync_ms_max = 0;
  int64_t sessions = 0, damaged_sessions = 0, erased_unpurged = 0;
  int64_t queued = 0;
  int64_t free_bytes = 0;  // free disk space at the last check
  int64_t writing_ms = 0;  // duration of the current write; 0 = none
};

class Journal {
 public:
  /// Locks the folder, opens the log, verifies the sessions written since the last orderly end and starts the thread.
  /// Sets the process's umask to 077: files are 0600, folders 0700, whichever thread creates them.
  /// ERRORS: kBusy: another process has the folder. kCorruption: damaged, or acknowledged records are missing.
  /// kMismatch: another schema, or a missing, wrong or superfluous encryption key. kIo: the operating system failed.
  static Result<std::unique_ptr<Journal>> Open(const JournalOptions& options);
  /// Commits queued entries, records an orderly end and closes.
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// Ok = accepted, and `done` will be called; otherwise it never is.
  /// ERRORS: kUnavailable (storage_full), so that a turn can be refused before it starts; kOverloaded: the queue is
  /// full; kIo: stopped; kInvalidArgument: the id or a record is too long. Reported to `done`: kNotFound: no such
  /// session, or erased; kInvalidArgument: create, and it exists; kCorruption: the session is damaged; kUnavailable:
  /// the disk has filled up meanwhile; kIo.
  Status Append(JournalEntry entry, JournalDone done);
  /// Deletes a session for every call after `done` reports Ok; its bytes are removed by the next Purge. An unknown
  /// session is Ok. Accepted even if Append would be refused as overloaded.
  Status Erase(std::string session, JournalDone done);

  // A store that several servers share. A session may be written, and erased, only between Claim and Release.
  /// Null: this server alone has the store, and every session is its own.
  SharedLog* shared() const;
  /// Null: the store has the text of running answers, or a crash loses it.
  DeltaLog* deltas() const;
  /// Makes an existing session this server's. Blocks.
  /// ERRORS: as SharedLog::Claim.
  Status Claim(const std::string& session);
  /// Gives the session back after its entries appended before; `done` as for Append.
  /// REQUIRES: no entry of the session is appended afterwards, and Claim is not called before `done`.
  Status Release(std::string session, JournalDone done);
  /// Key that seals exported conversations, equal for all servers of a store made by this version. Blocks.
  /// ERRORS: kCorruption, kIo.
  Result<SealKey> ExportKey() const;
  /// SharedLog::List, read. Blocks.
  Result<std::vector<ListedSession>> List(const std::string& owner, const std::string& after, int64_t limit) const;

  /// Returns when the calls accepted before have been reported, also those to deltas(); false after `most` without
  /// that. `session`: not for the journal if it has no call of this session. THREAD: any but the journal's and that of
  /// deltas().
  bool Flush(std::optional<std::chrono::milliseconds> most = std::nullopt, const std::string* session = nullptr);

  /// Seconds that servers have run on this log by the steady clock: the clock for the age of stored objects. Neither
  /// wall-clock changes nor time without a server count. A crash may lose the time since the last note: up to a minute
  /// while entries are written, ten minutes on an idle journal.
  /// THREAD: any.
  double UptimeSeconds() const;
  /// Records the uptime if nothing was written for ten minutes; to be called about once a second. Does not block.
  void NoteUptime();

  /// Reads all records of a session and verifies the chain.
  /// ERRORS: kNotFound; DamagedSession (other sessions are unaffected); kIo.
  Result<JournalTranscript> Read(const std::string& session) const;
  /// Reads a session's end and its summary.
  /// ERRORS: as Read, for these two only.
  Result<JournalSummary> Summary(const std::string& session) const;
  /// Returns a session's end.
  /// ERRORS: kNotFound, kCorruption.
  Result<JournalPosition> Last(const std::string& session) const;
  /// The chain of a session up to record `seq` (0 = before the first), for comparison with a client's.
  /// ERRORS: kNotFound: no such session or record; kCorruption: the record was altered; kIo.
  Result<JournalChain> ChainAt(const std::string& session, uint64_t seq) const;
  /// Key for a session's other data at rest, such as its cache; erased with the session. nullopt: this journal is not
  /// encrypted.
  /// ERRORS: kNotFound, kCorruption, kIo.
  Result<std::optional<SealKey>> KeyOf(const std::string& session) const;
  /// Calls `visit` for every session in a consistent snapshot, ordered by length of the id and id; for a damaged one
  /// with its readable fields. The views are valid during the call.
  Status ForEachHead(const std::function<void(const JournalHead&)>& visit) const;
  /// Verifies every chain; returns the ids of damaged sessions.
  Result<std::vector<std::string>> Verify() const;
  /// Known damage of a session in a few words; nullopt = none known.
  std::optional<std::string> DamageOf(const std::string& session) const;
  /// Marks a session as damaged whose records are intact but whose contents are not.
  void MarkDamaged(const std::string& session, std::string_view what) const;

  /// Rewrites the files that still hold bytes of erased sessions, or of deltas(). Blocks for seconds to minutes; other
  /// calls continue.
  /// THREAD: any but the journal's.
  Status Purge();

  /// Copies the log to `folder`: everything acknowledged before the call, in a form that Open accepts. Shares files
  /// with the log by hard links where possible; such files never change. Blocks for up to seconds; other calls
  /// continue.
  /// REQUIRES: `folder` exists and is empty.
  /// THREAD: any but the journal's.
  /// ERRORS: kUnavailable (storage_full); kIo: the contents of `folder` are then unusable.
  Status Backup(const std::string& folder);

  /// False once a write has failed or the store is lost: nothing is acknowledged any more.
  bool healthy() const;
  /// True once the folder, the log or its newest file was deleted, moved or replaced.
  bool lost() const;
  /// Reason why entries are refused: kIo, permanently; kUnavailable, until the disk has space (storage_full) or the
  /// folder is writable again. Accesses the file system, at most every space_look_ms.
  Status Check() const;
  JournalStats stats() const;

 private:
  class Impl;
  Journal(std::unique_ptr<DeltaLog> deltas, std::unique_ptr<Impl> impl);
  std::unique_ptr<DeltaLog> deltas_;  // null = none; outlives impl_
  std::unique_ptr<Impl> impl_;
};

}  // namespace ringside
