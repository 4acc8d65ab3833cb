#include "session/journal/rocksdb_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/file_checksum.h>
#include <rocksdb/file_system.h>
#include <rocksdb/listener.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/checkpoint.h>
#include <rocksdb/wal_filter.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <limits>
#include <optional>

#include "base/defect.h"
#include "base/log.h"
#include "base/open_files.h"
#include "cache/store/database_settings.h"
#include "cache/store/torn_log.h"
#include "session/journal/journal_format.h"
#include "session/journal/store_place.h"

namespace ringside {
namespace {

/// Converts RocksDB's status of an open. A missing file is damage here, because only existing logs are opened.
Status OpenStatus(const rocksdb::Status& status) {
  const std::string text = "journal: " + status.ToString();
  if (status.ok()) return Status::Ok();
  if (status.IsNotSupported()) return Mismatch(text);
  if (IsInUse(status)) return {StatusCode::kBusy, text};
  if (status.IsIOError() && !status.IsPathNotFound()) return IoError(text);
  return Corruption(text);
}

Status RunStatus(const rocksdb::Status& status) {
  if (status.ok()) return Status::Ok();
  const std::string text = "journal: " + status.ToString();
  return status.IsCorruption() ? Corruption(text) : IoError(text);
}

Status SystemError(const std::string& what) { return IoError("journal: " + what + ": " + std::strerror(errno)); }

/// A file descriptor with RAII.
class File {
 public:
  explicit File(int fd = -1) : fd_(fd) {}
  File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

Status SyncFolder(const std::string& path) {
  const File folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.fd() < 0 || fsync(folder.fd()) != 0) return SystemError("sync of " + path);
  return Status::Ok();
}

Result<File> LockFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return IoError("journal: " + path + ": " + error.message());
  const std::string name = path + "/lock";
  File file(open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.fd() < 0) return SystemError(name);
  if (flock(file.fd(), LOCK_EX | LOCK_NB) == 0) return file;
  if (errno == EWOULDBLOCK) return Status(StatusCode::kBusy, "journal: " + path + " is in use by another process");
  return SystemError("lock of " + name);
}

/// Last known end of the log: RocksDB's sequence number after the last acknowledged batch, written after each sync to a
/// separate file. RocksDB accepts a log whose synced end was cut off; this file detects that. It is written after the
/// sync, so it is never ahead of the log and needs no sync itself.
class Tip {
 public:
  static Result<Tip> Open(const std::string& path) {
    const std::string name = path + "/tip";
    File file(open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (file.fd() < 0) return SystemError(name);
    return Tip(std::move(file));
  }

  /// nullopt: unknown (a new or damaged file).
  std::optional<uint64_t> Read() const {
    char bytes[kBytes];
    if (pread(file_.fd(), bytes, kBytes, 0) != kBytes) return std::nullopt;
    const std::string_view all(bytes, kBytes);
    if (journal_format::DecodeNumber(all.substr(8)) != journal_format::Checksum(kName, all.substr(0, 8))) return {};
    return journal_format::DecodeNumber(all.substr(0, 8));
  }
  /// Errors are ignored: the commit is valid, only the recorded end is older.
  void Write(uint64_t sequence) const {
    std::string bytes = journal_format::EncodeNumber(sequence);
    bytes += journal_format::EncodeNumber(journal_format::Checksum(kName, bytes));
    [[maybe_unused]] const ssize_t written = pwrite(file_.fd(), bytes.data(), bytes.size(), 0);
  }

 private:
  static constexpr ssize_t kBytes = 16;
  static constexpr std::string_view kName = "ringside-tip 1";
  explicit Tip(File file) : file_(std::move(file)) {}
  File file_;
};

/// Sequence number of a batch's first change: its first 8 bytes, little-endian.
std::optional<uint64_t> FirstChange(const rocksdb::WriteBatch& batch) {
  return journal_format::DecodeNumber(std::string_view(batch.Data()).substr(0, 8));
}

/// Rejects a log with a gap: batches have consecutive sequence numbers, even across log files.
class ContinuityCheck final : public rocksdb::WalFilter {
 public:
  WalProcessingOption LogRecordFound(unsigned long long, const std::string&, const rocksdb::WriteBatch& batch,
                                     rocksdb::WriteBatch*, bool*) override {
    const auto first = FirstChange(batch);
    if (!first || (next_ && *first != *next_)) return WalProcessingOption::kCorruptedRecord;
    next_ = *first + batch.Count();
    return WalProcessingOption::kContinueProcessing;
  }
  const char* Name() const override { return "ringside: batches are missing"; }

 private:
  std::optional<uint64_t> next_;
};

/// Stops at the first batch in the log files.
class FirstBatch final : public rocksdb::WalFilter {
 public:
  WalProcessingOption LogRecordFound(unsigned long long, const std::string&, const rocksdb::WriteBatch& batch,
                                     rocksdb::WriteBatch*, bool*) override {
    number_ = FirstChange(batch);
    return WalProcessingOption::kStopReplay;
  }
  const char* Name() const override { return "ringside: the first batch"; }
  std::optional<uint64_t> number() const { return number_; }

 private:
  std::optional<uint64_t> number_;
};

// Deliberately left at their defaults, because RocksDB 7.8 loses or duplicates data with them: manual_wal_flush,
// wal_compression, track_and_verify_wals_in_manifest, recycle_log_file_num, WAL_ttl_seconds.
/// A block with a bad checksum affects only the sessions with rows in it, and their readers get an error. RocksDB would
/// refuse all writes after a compaction finds one, so the error is suppressed and compactions stop.
class DamagedTables final : public rocksdb::EventListener {
 public:
  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* error) override {
    if (reason != rocksdb::BackgroundErrorReason::kCompaction || !error->IsCorruption()) return;
    if (!found_.exchange(true)) LogError("journal: {}; until the next start tables are not merged", error->ToString());
    *error = rocksdb::Status::OK();
  }
  /// Stops compactions, which would otherwise be retried every second. Waits for the database, so it must not be called
  /// from a listener.
  void StopCompactions(rocksdb::DB& db) {
    if (!found_ || std::exchange(stopped_, true)) return;
    db.SetOptions({{"disable_auto_compactions", "true"}}).PermitUncheckedError();
  }

 private:
  std::atomic<bool> found_{false};
  bool stopped_ = false;
};

rocksdb::Options MakeOptions(rocksdb::Env* env) {
  rocksdb::Options options;
  SetCommon(&options);
  if (env != nullptr) options.env = env;
  options.paranoid_checks = true;
  options.paranoid_file_checks = true;
  options.file_checksum_gen_factory = rocksdb::GetFileChecksumGenCrc32cFactory();
  options.write_buffer_size = size_t{16} << 20;
  options.max_open_files = ShareOfOpenFiles(8, 64, 256);  // the rest is for sockets and the disk cache
  rocksdb::BlockBasedTableOptions table;
  table.checksum = rocksdb::kXXH3;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

rocksdb::WriteOptions Synced() {
  rocksdb::WriteOptions options;
  options.sync = !RINGSIDE_DEFECT("sync_skipped");
  return options;
}

rocksdb::Status Write(rocksdb::DB& db, const std::vector<RowChange>& changes) {
  rocksdb::WriteBatch batch(0, 0, /*protection_bytes_per_key=*/8, 0);
  for (const RowChange& change : changes) {
    rocksdb::Status status;
    switch (change.kind) {
      case RowChange::Kind::kPut:
        status = batch.Put(change.key, change.value);
        break;
      case RowChange::Kind::kDelete:
        status = batch.Delete(change.key);
        break;
      case RowChange::Kind::kDeleteRange:
        status = batch.DeleteRange(change.key, change.value);
        break;
      case RowChange::Kind::kRelease:
        break;
    }
    if (!status.ok()) return status;
  }
  return db.Write(Synced(), &batch);
}

Result<std::unique_ptr<rocksdb::DB>> OpenDatabase(const rocksdb::Options& options, const std::string& name) {
  rocksdb::DB* db = nullptr;
  try {
    RETURN_IF_ERROR(OpenStatus(rocksdb::DB::Open(options, name, &db)));
  } catch (const std::exception& error) {
    return Corruption(std::string("journal: ") + error.what());
  }
  return std::unique_ptr<rocksdb::DB>(db);
}

/// Checks, read-only, that the tables reach up to the log files. RocksDB accepts a manifest whose end is lost and then
/// ignores the tables named there; the log files with their rows are already deleted, and it would delete the tables as
/// well. `known`: recorded end.
Status CheckTables(rocksdb::Options options, const std::string& name, std::optional<uint64_t> known) {
  FirstBatch first;
  options.wal_filter = &first;
  rocksdb::DB* opened = nullptr;
  try {
    RETURN_IF_ERROR(OpenStatus(rocksdb::DB::OpenForReadOnly(options, name, &opened)));
  } catch (const std::exception& error) {
    return Corruption(std::string("journal: ") + error.what());
  }
  const std::unique_ptr<rocksdb::DB> db(opened);
  const uint64_t reached = db->GetLatestSequenceNumber();
  const std::optional<uint64_t> next = first.number() ? first.number() : known;
  if (!next || *next <= reached + (first.number() ? 1 : 0)) return Status::Ok();
  return Corruption(fmt::format("journal: tables are missing in {}: they reach change {}, what follows is change {}",
                                name, reached, *next));
}

/// Creates `<path>/log` under a temporary name and renames it when complete: RocksDB would treat a log without its
/// CURRENT file as missing and create an empty one over it.
Status CreateLog(const JournalOptions& options, const std::vector<RowChange>& initial) {
  rocksdb::Options settings = MakeOptions(options.env);
  const std::string draft = options.path + "/log.new", name = options.path + "/log";
  const auto files = settings.env->GetFileSystem();
  const rocksdb::IOOptions io;
  if (files->FileExists(draft, io, nullptr).ok()) {
    RETURN_IF_ERROR(RunStatus(rocksdb::DestroyDB(draft, settings)));
    files->DeleteDir(draft, io, nullptr).PermitUncheckedError();
  }
  settings.create_if_missing = true;
  settings.error_if_exists = true;
  ASSIGN_OR_RETURN(const std::unique_ptr<rocksdb::DB> db, OpenDatabase(settings, draft));
  RETURN_IF_ERROR(RunStatus(Write(*db, initial)));
  RETURN_IF_ERROR(RunStatus(db->Close()));
  RETURN_IF_ERROR(RunStatus(files->RenameFile(draft, name, io, nullptr)));
  return SyncFolder(options.path);
}

class RocksDbRows final : public JournalRows {
 public:
  explicit RocksDbRows(rocksdb::DB& db) : iterator_(db.NewIterator(rocksdb::ReadOptions())) {}

  void Seek(std::string_view key) override { iterator_->Seek({key.data(), key.size()}); }
  bool Valid() const override { return iterator_->Valid(); }
  void Next() override { iterator_->Next(); }
  std::string_view key() const override { return iterator_->key().ToStringView(); }
  std::string_view value() const override { return iterator_->value().ToStringView(); }
  Status status() const override { return RunStatus(iterator_->status()); }

 private:
  const std::unique_ptr<rocksdb::Iterator> iterator_;
};

class RocksDbLog final : public JournalLog {
 public:
  RocksDbLog(File lock, Tip tip) : lock_(std::move(lock)), tip_(std::move(tip)) {}
  ~RocksDbLog() override;
  Status Open(const JournalOptions& options, const std::vector<RowChange>& initial);

  Status Commit(const std::vector<RowChange>& changes) override;
  Status CheckPlace() const override;
  JournalCursor Cursor() const override { return JournalCursor(std::make_unique<RocksDbRows>(*db_)); }
  int64_t FreeBytes() const override;
  Status Rewrite(const std::vector<std::pair<std::string, std::string>>& ranges) override;
  Status Backup(const std::string& folder) const override;

 private:
  std::string path_;
  File lock_;  // held until the database is closed
  Tip tip_;
  ContinuityCheck continuity_;
  const std::shared_ptr<DamagedTables> damaged_tables_ = std::make_shared<DamagedTables>();
  rocksdb::Env* env_ = nullptr;
  std::unique_ptr<rocksdb::DB> db_;
  std::optional<StorePlace> place_;  // set once Open has returned
};

Status RocksDbLog::Open(const JournalOptions& options, const std::vector<RowChange>& initial) {
  path_ = options.path;
  rocksdb::Options settings = MakeOptions(options.env);
  env_ = settings.env;
  const std::string name = options.path + "/log";
  const rocksdb::Status exists = env_->FileExists(name);
  if (exists.IsNotFound()) {
    if (tip_.Read() && !options.accept_lost_tail) {
      return Corruption("journal: " + name + " is gone, but " + options.path + "/tip says that it held records");
    }
    RETURN_IF_ERROR(CreateLog(options, initial));
    tip_.Write(0);
  } else {
    RETURN_IF_ERROR(OpenStatus(exists));
  }
  const auto known = tip_.Read();
  const auto open = [&]() -> Status {
    if (!options.accept_lost_tail && !RINGSIDE_DEFECT("lost_tables_accepted"))
      RETURN_IF_ERROR(CheckTables(settings, name, known));
    continuity_ = {};
    settings.wal_filter = &continuity_;
    settings.listeners = {damaged_tables_};
    ASSIGN_OR_RETURN(db_, OpenDatabase(settings, name));
    return Status::Ok();
  };
  Status opened = open();
  if (opened.code() == StatusCode::kCorruption) {
    ASSIGN_OR_RETURN(const bool torn, TruncateTornTail(name, known.value_or(0)));
    if (torn) opened = open();
  }
  RETURN_IF_ERROR(opened);
  const uint64_t reached = db_->GetLatestSequenceNumber();
  if (known && *known > reached && !options.accept_lost_tail && !RINGSIDE_DEFECT("lost_tail_accepted")) {
    return Corruption(fmt::format("journal: the end of {} is missing: it reaches change {}, change {} was acknowledged",
                                  name, reached, *known));
  }
  tip_.Write(reached);
  std::vector<std::string> paths = {options.path, options.path + "/lock"};
  if (options.env == nullptr) paths.push_back(name);
  ASSIGN_OR_RETURN(place_, StorePlace::Of(std::move(paths)));
  return Status::Ok();
}

RocksDbLog::~RocksDbLog() {
  if (db_ != nullptr) db_->Close().PermitUncheckedError();
}

Status RocksDbLog::Commit(const std::vector<RowChange>& changes) {
  damaged_tables_->StopCompactions(*db_);
  RETURN_IF_ERROR(RunStatus(Write(*db_, changes)));
  tip_.Write(db_->GetLatestSequenceNumber());
  return Status::Ok();
}

Status RocksDbLog::CheckPlace() const {
  const Status place = place_->Check();
  if (place.code() == StatusCode::kIo) return place;
  std::unique_ptr<rocksdb::LogFile> file;
  const rocksdb::Status found = db_->GetCurrentWalFile(&file);
  if (found.IsPathNotFound() || found.IsNotFound()) return IoError("journal: the log file was deleted");
  return place;
}

int64_t RocksDbLog::FreeBytes() const {
  uint64_t bytes = 0;
  const auto status = env_->GetFileSystem()->GetFreeSpace(path_, {}, &bytes, nullptr);
  constexpr auto kMany = std::numeric_limits<int64_t>::max();
  return status.ok() && bytes < static_cast<uint64_t>(kMany) ? static_cast<int64_t>(bytes) : kMany;
}

Status RocksDbLog::Rewrite(const std::vector<std::pair<std::string, std::string>>& ranges) {
  RETURN_IF_ERROR(RunStatus(db_->Flush(rocksdb::FlushOptions())));
  rocksdb::CompactRangeOptions options;
  options.exclusive_manual_compaction = false;
  options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
  for (const auto& [first, last] : ranges) {
    const rocksdb::Slice begin(first), end(last);
    RETURN_IF_ERROR(RunStatus(db_->CompactRange(options, &begin, &end)));
  }
  return Status::Ok();
}

Status RocksDbLog::Backup(const std::string& folder) const {
  ASSIGN_OR_RETURN(const Tip tip, Tip::Open(folder));
  // Before the copy is made: a copy may contain more than its tip states, but less is reported as damage.
  tip.Write(db_->GetLatestSequenceNumber());
  rocksdb::Checkpoint* made = nullptr;
  RETURN_IF_ERROR(RunStatus(rocksdb::Checkpoint::Create(db_.get(), &made)));
  const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
  RETURN_IF_ERROR(RunStatus(checkpoint->CreateCheckpoint(folder + "/log")));
  return SyncFolder(folder);
}

}  // namespace

Result<std::unique_ptr<JournalLog>> OpenRocksDbLog(const JournalOptions& options,
                                                   const std::vector<RowChange>& initial) {
  umask(077);
  ASSIGN_OR_RETURN(File lock, LockFolder(options.path));
  ASSIGN_OR_RETURN(Tip tip, Tip::Open(options.path));
  auto log = std::make_unique<RocksDbLog>(std::move(lock), std::move(tip));
  RETURN_IF_ERROR(log->Open(options, initial));
  return std::unique_ptr<JournalLog>(std::move(log));
}

}  // namespace ringside
