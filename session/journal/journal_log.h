// The journal's rows on disk: a RocksDB instance in `<path>/log`, opened and written so that an acknowledged write is
// never lost in silence. Owned by a Journal. Commit comes from the journal's thread only; cursors and Purge from any.
// The one file of this layer that knows RocksDB is journal_log.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "session/journal/journal.h"

namespace ringside {

/// One change of a batch.
struct RowChange {
  enum class Kind { kPut, kDelete, kDeleteRange };
  Kind kind;
  std::string key;
  std::string value;  // kPut: the value; kDeleteRange: the first key that stays
};

/// Walks the rows in order of key, as they were when it was made.
class JournalCursor {
 public:
  JournalCursor(JournalCursor&&) noexcept;
  ~JournalCursor();

  void Seek(std::string_view key);
  /// False at the end, and after an error: see status().
  bool Valid() const;
  void Next();
  std::string_view key() const;
  std::string_view value() const;
  Status status() const;

 private:
  friend class JournalLog;
  class Impl;
  explicit JournalCursor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

class JournalLog {
 public:
  /// Errors as Journal::Open, but for the schema, which is the caller's to check. Where no log is, one is made with the
  /// `initial` rows: a log that exists has them, whatever crashed.
  static Result<std::unique_ptr<JournalLog>> Open(const JournalOptions& options, const std::vector<RowChange>& initial);
  ~JournalLog();
  JournalLog(const JournalLog&) = delete;
  JournalLog& operator=(const JournalLog&) = delete;

  /// Writes the changes as one, synced. After a failure nothing may be committed any more.
  Status Commit(const std::vector<RowChange>& changes);
  /// Whether Open's path still leads to the files that Commit writes: kIo = no longer; kUnavailable = the folder cannot
  /// be written now.
  Status CheckPlace() const;
  JournalCursor Cursor() const;
  /// Free bytes on the disk; a large number if that is unknown.
  int64_t FreeBytes() const;
  /// Moves everything in memory to files, rewrites the files with keys in these ranges, starts a new log file.
  Status Rewrite(const std::vector<std::pair<std::string, std::string>>& ranges);
  /// A copy of the log and of its tip in `folder`: what was committed before the call, and what belongs to it of what
  /// is committed meanwhile.
  Status Backup(const std::string& folder) const;

 private:
  class Impl;
  explicit JournalLog(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ringside
