// The durable transcript: an append-only log of opaque records per session, bound by a hash chain, with one group
// commit for what is pending. It owns `<path>/log` and one thread; whoever made it owns it. Append and Erase come
// from any thread and never wait; what they lead to is told by a callback on the journal's thread, in order, after the
// sync. Reads come from any thread and do block. The rows are described in session/journal/journal_format.h.
//
// What holds: a record whose callback said Ok is there after any crash, once, in order, and its chain verifies; one
// that was not acknowledged may be there or not, never in part. After a failed write or sync nothing is retried: the
// journal is stopped for good (kIo from everything) and a restart is the recovery. It also stops once the folder, the
// log or its newest file is deleted, moved or replaced: it looks for that after each sync, before the acknowledgement.
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

inline constexpr size_t kMaxJournalSessionBytes = 128;  // of a session's id

/// XXH3-128 over all records of a session up to one of them.
struct JournalChain {
  uint64_t high = 0, low = 0;
  /// 32 lower-case hexadecimal digits.
  std::string Hex() const;
  friend bool operator==(const JournalChain&, const JournalChain&) = default;
};

/// A record's number in its session, from 1 on, and the chain up to it. {0, FirstChain} = no record yet.
struct JournalPosition {
  uint64_t seq = 0;
  JournalChain chain;
  uint64_t bytes = 0;  // of the payloads up to it, as stored; those that an older version wrote are not counted
  friend bool operator==(const JournalPosition&, const JournalPosition&) = default;
};

struct JournalRecord {
  uint8_t type = 0;     // what the payload is; the session layer's business
  std::string payload;  // at most kMaxJournalRecordBytes
  friend bool operator==(const JournalRecord&, const JournalRecord&) = default;
};

/// One durable change of one session, whole or not at all.
struct JournalEntry {
  std::string session;                 // 1 .. kMaxJournalSessionBytes bytes
  bool create = false;                 // the session must not exist yet; without it, it must
  std::vector<JournalRecord> records;  // in order; may be empty
  bool urgent = false;                 // of a turn that runs: taken however much is queued
  std::optional<std::string> summary;  // replaces the session's summary: what a start wants to know of every session
};

/// kCorruption (session_damaged), naming the session and what is damaged of it.
Status DamagedSession(std::string_view session, std::string_view what);

/// Called once for every accepted entry, on the journal's thread, in the order of acceptance of one session; a large
/// entry may be told behind later ones of other sessions (session/journal/journal_line.h). `last` is where the session
/// then ends. Must not block.
using JournalDone = std::function<void(const Status& status, const JournalPosition& last)>;

struct JournalHead {
  std::string_view session;
  JournalPosition last;
  std::string_view summary;  // empty where it cannot be read
  std::string_view damage;   // what is known to be damaged; "" = nothing
};

struct JournalSummary {
  JournalPosition last;
  std::string summary;
};

struct JournalTranscript {
  std::vector<JournalRecord> records;  // record i has the number i + 1
  std::vector<JournalChain> chains;    // up to each record
  JournalPosition last;
  std::string summary;
};

struct JournalOptions {
  std::string path;  // the data folder; made (0700) if it is not there
  /// Open even though the end of the log is known to be missing: the operator's decision, after a copy.
  bool accept_lost_tail = false;
  size_t queue_entries = limits::kJournalQueueEntries;  // accepted and not told yet
  size_t queue_bytes = limits::kJournalQueueBytes;
  /// With less free space on the disk, entries are refused (kUnavailable, reason "storage_full") before they are
  /// written; erasing goes on.
  int64_t min_free_bytes = int64_t{64} << 20;
  int64_t space_look_ms = 200;  // Append looks at the free space at most so often
  /// With a key what sessions hold is encrypted (session/journal/journal_format.h). A log is encrypted from its making
  /// on, or never.
  std::optional<SealKey> master_key;
  rocksdb::Env* env = nullptr;                    // where the files are; null = the machine's file system
  const Clock* clock = &SystemClock::Instance();  // outlives the journal; its steady time only
};

struct JournalStats {
  uint64_t commits = 0;  // synced batches
  uint64_t entries = 0;  // acknowledged
  uint64_t records = 0;  // of them
  uint64_t bytes = 0;    // of these records' payloads
  uint64_t refused = 0;  // entries that could not be queued, or for want of space
  double sync_ms_total = 0, sync_ms_max = 0;
  int64_t sessions = 0, damaged_sessions = 0, erased_unpurged = 0;
  int64_t queued = 0;
  int64_t free_bytes = 0;  // on the disk, as of the last look
  int64_t writing_ms = 0;  // since the write that runs now has begun; 0 = none runs
};

class Journal {
 public:
  /// Locks the folder, opens the log, verifies the sessions that were written since the last orderly end, starts the
  /// thread. Sets the process's umask to 077: files are 0600,
  /// folders 0700, whichever thread makes them. kBusy: another process has the folder. kCorruption: damaged, or
  /// acknowledged records are missing. kMismatch: another schema, or no, another or a needless encryption key. kIo: the
  /// operating system failed.
  static Result<std::unique_ptr<Journal>> Open(const JournalOptions& options);
  /// Commits what is queued, marks an orderly end and closes.
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// Ok = accepted: `done` will be called. Otherwise it never is: kUnavailable with the reason "storage_full" (so that
  /// a turn can be refused before it begins), kOverloaded (the queue is full), kIo (stopped), kInvalidArgument (the id
  /// or a record is too long). `done` says: kNotFound (no such session; erased ones included), kInvalidArgument
  /// (create, and it exists), kCorruption (the session is damaged), kUnavailable (the disk has filled up meanwhile),
  /// kIo.
  Status Append(JournalEntry entry, JournalDone done);
  /// Takes a session away: gone for every later call once `done` says Ok; its bytes go with the next Purge. An unknown
  /// session is Ok. Accepted even where Append would be refused as overloaded.
  Status Erase(std::string session, JournalDone done);
  /// Returns when the calls accepted before have been reported; false after `most` without that. Any thread but the
  /// journal's.
  bool Flush(std::optional<std::chrono::milliseconds> most = std::nullopt);

  /// Seconds that servers have run on this log, by the steady clock: the time by which stored objects age. Neither a
  /// change of the wall clock nor time without a server adds to it. A crash may take back the time since the last note:
  /// up to a minute while entries are written, ten minutes on an idle journal. THREAD: any.
  double UptimeSeconds() const;
  /// Notes it where nothing was written for ten minutes; to be called about once a second. Does not wait.
  void NoteUptime();

  /// Every record of a session, its chain verified. kNotFound; DamagedSession (others are unaffected); kIo.
  Result<JournalTranscript> Read(const std::string& session) const;
  /// Where a session ends, and its summary. Errors as Read, of these two alone.
  Result<JournalSummary> Summary(const std::string& session) const;
  /// Where a session ends; kNotFound, kCorruption.
  Result<JournalPosition> Last(const std::string& session) const;
  /// The chain of a session up to its record `seq` (0 = before the first): to compare with what a client knows.
  /// kNotFound: no such session or no such record; kCorruption: the record is not what was written; kIo.
  Result<JournalChain> ChainAt(const std::string& session, uint64_t seq) const;
  /// The key of a session's other bytes at rest, such as its cache: it goes with the session. nullopt: this journal is
  /// not encrypted. kNotFound, kCorruption, kIo.
  Result<std::optional<SealKey>> KeyOf(const std::string& session) const;
  /// Calls `visit` for every session, in order of id length and id, as of one moment; of a damaged one with what could
  /// be read. The views live during the call.
  Status ForEachHead(const std::function<void(const JournalHead&)>& visit) const;
  /// Verifies every chain; the ids of the damaged sessions.
  Result<std::vector<std::string>> Verify() const;
  /// What is damaged of a session, in a few words, as far as anything was read of it; nullopt = nothing is known.
  std::optional<std::string> DamageOf(const std::string& session) const;
  /// The session's records are sound, but not what they say: from now on it is a damaged one.
  void MarkDamaged(const std::string& session, std::string_view what) const;

  /// Rewrites the files that still hold bytes of erased sessions. Blocks, seconds to minutes; any thread but the
  /// journal's. Everything else goes on.
  Status Purge();

  /// Makes a copy of the log in `folder`, which is there and empty: what was acknowledged before the call, whole, and a
  /// journal that Open takes. Where it can, the copy shares files with the log (hard links), which are never changed.
  /// kUnavailable (storage_full); kIo: what is in `folder` then is worth nothing. Blocks, up to seconds; any thread but
  /// the journal's. Everything else goes on.
  Status Backup(const std::string& folder);

  /// False once a write has failed, or the store is lost: nothing will be acknowledged any more.
  bool healthy() const;
  /// True once the folder, the log or its newest file was deleted, moved or replaced.
  bool lost() const;
  /// Why entries are refused now: kIo, for good; kUnavailable, until the disk has space (storage_full) or the folder
  /// can be written again. Asks the file system, every space_look_ms at most.
  Status Check() const;
  JournalStats stats() const;

 private:
  class Impl;
  explicit Journal(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ringside
