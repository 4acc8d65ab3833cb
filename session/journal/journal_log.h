// The journal's rows on disk: a RocksDB instance in `<path>/log`, opened and written such that no acknowledged write is
// lost silently. Only journal_log.cpp of this layer uses RocksDB. Owned by a Journal.
// THREAD: Commit: the journal's; cursors and Purge: any.
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
  std::string value;  // kPut: the value; kDeleteRange: the end of the range, exclusive
};

/// Iterates over the rows in key order, in a snapshot.
class JournalCursor {
 public:
  JournalCursor(JournalCursor&&) noexcept;
  ~JournalCursor();

  void Seek(std::string_view key);
  /// False at the end and after an error; see status().
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
  /// Opens the log, or creates one with the `initial` rows, which every existing log has.
  /// ERRORS: as Journal::Open, except the schema, which the caller checks.
  static Result<std::unique_ptr<JournalLog>> Open(const JournalOptions& options, const std::vector<RowChange>& initial);
  ~JournalLog();
  JournalLog(const JournalLog&) = delete;
  JournalLog& operator=(const JournalLog&) = delete;

  /// Writes the changes atomically and syncs. After an error nothing may be committed any more.
  Status Commit(const std::vector<RowChange>& changes);
  /// Checks that Open's path still leads to the files that Commit writes.
  /// ERRORS: kIo if not; kUnavailable if the folder is not writable now.
  Status CheckPlace() const;
  JournalCursor Cursor() const;
  /// Free bytes on the disk; a large number if unknown.
  int64_t FreeBytes() const;
  /// Flushes the memory tables, rewrites the files with keys in these ranges and starts a new log file.
  Status Rewrite(const std::vector<std::pair<std::string, std::string>>& ranges);
  /// Copies the log and its tip to `folder`: everything committed before the call, and dependent parts of later
  /// commits.
  Status Backup(const std::string& folder) const;

 private:
  class Impl;
  explicit JournalLog(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ringside
