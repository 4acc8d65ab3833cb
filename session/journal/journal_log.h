// The journal's rows in a store: a folder (session/journal/rocksdb_log.h), or a database that several servers share
// (session/journal/shared_log.h). The rows are described in session/journal/journal_format.h. Owned by a Journal.
// THREAD: Commit: the journal's; cursors and Rewrite: any.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "session/journal/journal.h"

namespace ringside {

class SharedLog;

/// One change of a batch.
struct RowChange {
  enum class Kind {
    kPut,
    kDelete,
    kDeleteRange,
    kRelease  // only in a SharedLog: the session `key` belongs to no server
  };
  Kind kind;
  std::string key;
  std::string value = {};                  // kPut: the value; kDeleteRange: the end of the range, exclusive
  std::optional<SessionLabel> label = {};  // with a summary
};

/// Iterates over rows in key order, in a snapshot.
class JournalRows {
 public:
  virtual ~JournalRows() = default;
  virtual void Seek(std::string_view key) = 0;
  /// False at the end and after an error; see status().
  virtual bool Valid() const = 0;
  virtual void Next() = 0;
  virtual std::string_view key() const = 0;
  virtual std::string_view value() const = 0;
  virtual Status status() const = 0;
};

class JournalCursor {
 public:
  explicit JournalCursor(std::unique_ptr<JournalRows> rows) : rows_(std::move(rows)) {}

  void Seek(std::string_view key) { rows_->Seek(key); }
  bool Valid() const { return rows_->Valid(); }
  void Next() { rows_->Next(); }
  std::string_view key() const { return rows_->key(); }
  std::string_view value() const { return rows_->value(); }
  Status status() const { return rows_->status(); }

 private:
  std::unique_ptr<JournalRows> rows_;
};

class JournalLog {
 public:
  virtual ~JournalLog() = default;

  /// Writes the changes atomically and durably. After an error nothing may be committed any more.
  virtual Status Commit(const std::vector<RowChange>& changes) = 0;
  /// Checks that what Open found is still what Commit writes.
  /// ERRORS: kIo if not; kUnavailable if it cannot be written now.
  virtual Status CheckPlace() const = 0;
  virtual JournalCursor Cursor() const = 0;
  /// Free bytes on the disk; a large number if unknown.
  virtual int64_t FreeBytes() const = 0;
  /// Removes the bytes of erased rows in these ranges from the disk.
  virtual Status Rewrite(const std::vector<std::pair<std::string, std::string>>& ranges) = 0;
  /// Copies the log to `folder`: everything committed before the call, and dependent parts of later commits.
  /// ERRORS: kUnavailable if this kind of store is copied by other means.
  virtual Status Backup(const std::string& folder) const = 0;
  /// Null: this process alone has the store.
  virtual SharedLog* shared() { return nullptr; }
};

}  // namespace ringside
