#include "cache/store/rocksdb_store.h"

#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>
#define XXH_STATIC_LINKING_ONLY  // XXH3 by that name
#include <sys/resource.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdarg>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <limits>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/defect.h"
#include "base/log.h"
#include "cache/store/sealed_object.h"
#include "cache/store/torn_log.h"

namespace ringside {
namespace {

// Rows of the default family: "schema"; 'i' owner -> size and last use; 'm' owner -> manifest; 'w' owner -> its parts
// are being written. Of the family "parts": length(owner) owner hash(16) piece(2) -> at most kPieceBytes of the part.
constexpr std::string_view kSchemaKey = "schema", kSchema = "ringside-kv 1", kSealedSchema = "ringside-kv 1 sealed";
constexpr char kIndex = 'i', kManifest = 'm', kWriting = 'w';
constexpr size_t kPieceBytes = size_t{512} << 10;
constexpr size_t kMaxOwnerBytes = 128;
constexpr size_t kMaxPieces = size_t{1} << 16;

rocksdb::Slice ToSlice(std::string_view text) { return {text.data(), text.size()}; }

Status ToStatus(const rocksdb::Status& status) {
  if (status.ok()) return Status::Ok();
  const std::string text = "disk tier: " + status.ToString();
  if (status.IsNotFound()) return NotFound(text);
  if (status.IsCorruption() || status.IsNotSupported() || status.IsInvalidArgument()) return Corruption(text);
  if (status.IsNoSpace()) return Overloaded(text);
  return IoError(text);
}

void PutNumber(std::string& out, uint64_t number) {
  for (int shift = 0; shift < 64; shift += 8) out.push_back(static_cast<char>(number >> shift));
}
uint64_t GetNumber(std::string_view bytes) {
  uint64_t number = 0;
  for (size_t i = 8; i-- > 0;) number = number << 8 | static_cast<uint8_t>(bytes[i]);
  return number;
}

std::string Row(char kind, std::string_view owner) { return std::string(1, kind).append(owner); }

std::string PartsPrefix(std::string_view owner) {
  std::string key(1, static_cast<char>(owner.size()));
  return key.append(owner);
}
/// Behind the prefix's keys, before all others.
std::string PrefixEnd(std::string prefix) {
  while (static_cast<uint8_t>(prefix.back()) == 0xff) prefix.pop_back();
  ++prefix.back();
  return prefix;
}
/// Sorts as ChunkHash does.
std::string PartKey(std::string_view owner, const ChunkHash& key) {
  std::string out = PartsPrefix(owner);
  for (const uint64_t number : {key.high, key.low}) {
    for (int shift = 56; shift >= 0; shift -= 8) out.push_back(static_cast<char>(number >> shift));
  }
  return out;
}
std::string PieceKey(std::string part_key, size_t piece) {
  part_key.push_back(static_cast<char>(piece >> 8));
  part_key.push_back(static_cast<char>(piece));
  return part_key;
}

// size, seconds since 1970, and the keys and sizes of the parts: what a Put must know of the object before.
struct IndexRow {
  int64_t bytes = 0;
  double used_at = 0;
  std::vector<ChunkHash> parts;  // ascending
};

std::string EncodeIndex(const std::string& owner, const IndexRow& row) {
  std::string out;
  PutNumber(out, static_cast<uint64_t>(row.bytes));
  PutNumber(out, static_cast<uint64_t>(std::max(0.0, row.used_at)));
  for (const ChunkHash& part : row.parts) {
    PutNumber(out, part.high);
    PutNumber(out, part.low);
  }
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, owner.data(), owner.size());
  XXH3_64bits_update(&state, out.data(), out.size());
  PutNumber(out, XXH3_64bits_digest(&state));
  return out;
}

Result<IndexRow> DecodeIndex(const std::string& owner, std::string_view value) {
  if (value.size() < 24 || value.size() % 16 != 8) return Corruption("disk tier: damaged index");
  IndexRow row;
  row.bytes = static_cast<int64_t>(GetNumber(value));
  row.used_at = static_cast<double>(GetNumber(value.substr(8)));
  for (size_t at = 16; at + 16 < value.size(); at += 16) {
    row.parts.push_back({GetNumber(value.substr(at)), GetNumber(value.substr(at + 8))});
  }
  if (row.bytes < 0 || EncodeIndex(owner, row) != value) return Corruption("disk tier: damaged index");
  return row;
}

/// RocksDB's own log file stands on the same disk: where that is full, a second failed write to it aborts the process.
class NoStoreLog final : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char* /*format*/, va_list /*arguments*/) override {}
};

/// The rest is for sockets and the journal.
int MaxOpenFiles() {
  constexpr rlim_t kMost = 1024, kLeast = 64;
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return static_cast<int>(kLeast);
  return static_cast<int>(std::clamp(files.rlim_cur / 4, kLeast, kMost));
}

rocksdb::Options MakeOptions(rocksdb::Env* env) {
  rocksdb::Options options;
  if (env != nullptr) options.env = env;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  options.compression = rocksdb::kNoCompression;
  options.write_buffer_size = size_t{4} << 20;  // manifests only: parts do not pass through memory tables
  options.max_background_jobs = 2;
  options.max_open_files = MaxOpenFiles();
  options.skip_stats_update_on_db_open = true;
  options.info_log = std::make_shared<NoStoreLog>();
  options.max_log_file_size = size_t{1} << 20;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  rocksdb::BlockBasedTableOptions table;
  table.checksum = rocksdb::kXXH3;  // an index block without one could not be read safely
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

rocksdb::ColumnFamilyOptions PartsOptions(const rocksdb::Options& options) {
  rocksdb::ColumnFamilyOptions parts(options);
  // Values are large and read once: caching them would only copy them. Compaction only gives erased bytes back.
  rocksdb::BlockBasedTableOptions table;
  table.checksum = rocksdb::kXXH3;
  table.no_block_cache = true;
  parts.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  parts.target_file_size_base = uint64_t{256} << 20;
  parts.level0_file_num_compaction_trigger = 16;
  return parts;
}

rocksdb::WriteOptions Synced() {
  rocksdb::WriteOptions options;
  options.sync = true;
  options.protection_bytes_per_key = 8;
  return options;
}

}  // namespace

class RocksDbStore::Impl {
 public:
  Impl(RocksDbStoreOptions options, const Clock& clock)
      : options_(std::move(options)), clock_(clock), settings_(MakeOptions(options_.env)) {}
  ~Impl() { Close(); }

  Status Open();
  Status Put(const std::string& owner, StoreObject object);
  Result<std::string> GetManifest(const std::string& owner);
  Result<Blob> GetPart(const std::string& owner, const ChunkHash& key, size_t bytes);
  Status Erase(const std::string& owner);
  Status Purge();

  StoreIndex index;
  std::atomic<bool> healthy{true};
  int64_t budget_bytes() const { return options_.budget_bytes; }

 private:
  Status OpenOnce();
  Status Load();
  Status Sweep(const std::string& owner);
  void Close();
  Status Refuse(const rocksdb::Status& status);
  Result<ObjectKey> KeyOf(const std::string& owner) const {
    return options_.key_of ? options_.key_of(owner) : ObjectKey();
  }
  std::string_view schema() const { return options_.key_of ? kSealedSchema : kSchema; }
  Result<IndexRow> ReadIndex(const std::string& owner);
  Status Promise(int64_t new_bytes, int64_t grows_by);
  Status Commit(const std::string& owner, const ObjectKey& key, StoreObject& object,
                const std::vector<StorePart>& added, const IndexRow& before, const IndexRow& after);
  Status WriteParts(const std::string& owner, const ObjectKey& key, const std::vector<StorePart>& parts);
  std::string name() const { return options_.path + "/kv"; }
  std::string drafts() const { return options_.path + "/kv.new"; }

  const RocksDbStoreOptions options_;
  const Clock& clock_;
  const rocksdb::Options settings_;
  std::unique_ptr<rocksdb::DB> db_;
  rocksdb::ColumnFamilyHandle* rows_ = nullptr;
  rocksdb::ColumnFamilyHandle* parts_ = nullptr;
  std::mutex& MutexOf(const std::string& owner) {
    return owner_mutexes_[std::hash<std::string>()(owner) % owner_mutexes_.size()];
  }

  std::array<std::mutex, 64> owner_mutexes_;  // one Put or Erase of an owner at a time
  std::mutex promised_mutex_;
  int64_t promised_bytes_ = 0;  // of objects that are being written
  std::atomic<uint64_t> drafts_made_{0};
};

void RocksDbStore::Impl::Close() {
  if (db_ == nullptr) return;
  for (rocksdb::ColumnFamilyHandle* family : {rows_, parts_}) {
    if (family != nullptr) db_->DestroyColumnFamilyHandle(family).PermitUncheckedError();
  }
  db_->Close().PermitUncheckedError();
  rows_ = parts_ = nullptr;
  db_.reset();
}

Status RocksDbStore::Impl::Open() {
  umask(077);
  std::error_code error;
  std::filesystem::create_directories(options_.path, error);
  if (error) return IoError("disk tier: " + options_.path + ": " + error.message());
  Status status = OpenOnce();
  if (status.code() == StatusCode::kCorruption && db_ == nullptr) {
    ASSIGN_OR_RETURN(const bool torn, CutTornEnd(name(), 0));
    if (torn) status = OpenOnce();
  }
  if (status.code() != StatusCode::kCorruption && status.code() != StatusCode::kMismatch &&
      status.code() != StatusCode::kNotFound) {
    return status;
  }
  LogWarning("{}; what is in {} is thrown away and computed again", status.message(), name());
  Close();
  std::filesystem::remove_all(name(), error);
  if (error) return IoError("disk tier: " + name() + ": " + error.message());
  index.Clear();
  return OpenOnce();
}

Status RocksDbStore::Impl::OpenOnce() {
  std::error_code error;
  std::filesystem::remove_all(drafts(), error);
  if (!error) std::filesystem::create_directories(drafts(), error);
  if (error) return IoError("disk tier: " + drafts() + ": " + error.message());
  const std::vector<rocksdb::ColumnFamilyDescriptor> families = {
      {rocksdb::kDefaultColumnFamilyName, rocksdb::ColumnFamilyOptions(settings_)}, {"parts", PartsOptions(settings_)}};
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  try {
    const rocksdb::Status opened = rocksdb::DB::Open(settings_, name(), families, &handles, &db);
    if (opened.IsIOError() && opened.ToString().find("lock") != std::string::npos) {
      return {StatusCode::kBusy, "disk tier: " + opened.ToString()};
    }
    if (opened.IsPathNotFound()) return Corruption("disk tier: " + opened.ToString());
    RETURN_IF_ERROR(ToStatus(opened));
  } catch (const std::exception& thrown) {
    return Corruption(std::string("disk tier: ") + thrown.what());
  }
  db_.reset(db);
  rows_ = handles[0];
  parts_ = handles[1];
  return Load();
}

Status RocksDbStore::Impl::Load() {
  std::vector<std::string> half_written;
  std::vector<std::pair<double, std::pair<std::string, int64_t>>> found;
  const std::unique_ptr<rocksdb::Iterator> row(db_->NewIterator(rocksdb::ReadOptions(), rows_));
  for (row->Seek(rocksdb::Slice(&kIndex, 1)); row->Valid() && row->key()[0] == kIndex; row->Next()) {
    const std::string owner = row->key().ToString().substr(1);
    ASSIGN_OR_RETURN(const IndexRow entry, DecodeIndex(owner, row->value().ToStringView()));
    found.push_back({entry.used_at, {owner, entry.bytes}});
  }
  RETURN_IF_ERROR(ToStatus(row->status()));
  for (row->Seek(rocksdb::Slice(&kWriting, 1)); row->Valid() && row->key()[0] == kWriting; row->Next()) {
    half_written.push_back(row->key().ToString().substr(1));
  }
  RETURN_IF_ERROR(ToStatus(row->status()));
  std::string found_schema;
  const rocksdb::Status known = db_->Get(rocksdb::ReadOptions(), rows_, ToSlice(kSchemaKey), &found_schema);
  if (known.IsNotFound() && found.empty()) {
    RETURN_IF_ERROR(ToStatus(db_->Put(Synced(), rows_, ToSlice(kSchemaKey), ToSlice(schema()))));
  } else if (!known.ok() && !known.IsNotFound()) {
    return ToStatus(known);
  } else if (found_schema != schema()) {
    return Mismatch(
        "disk tier: written by another version of the server, or with encryption and now without, or the reverse");
  }
  // What was used before this start keeps its order and, if the clock makes sense, its age.
  std::sort(found.begin(), found.end());
  const int64_t now_ns = clock_.MonotonicNs();
  const double now = clock_.WallSeconds();
  constexpr double kMostAge = 10.0 * 365 * 86400;
  for (const auto& [used_at, object] : found) {
    const double age = std::clamp(now - used_at, 0.0, kMostAge);
    index.Set(object.first, object.second, now_ns - static_cast<int64_t>(age * 1e9));
  }
  for (const std::string& owner : half_written) RETURN_IF_ERROR(Sweep(owner));
  return Status::Ok();
}

// Takes away the parts of `owner` that its manifest does not name: a crash came between the two.
Status RocksDbStore::Impl::Sweep(const std::string& owner) {
  std::vector<ChunkHash> kept;
  if (auto row = ReadIndex(owner); row.ok()) {
    kept = std::move(row->parts);
  } else if (row.status().code() != StatusCode::kNotFound) {
    return row.status();
  }
  rocksdb::WriteBatch batch;
  const std::string prefix = PartsPrefix(owner);
  std::string from = prefix;
  for (const ChunkHash& part : kept) {  // everything between two parts that stay
    const std::string stays = PartKey(owner, part);
    RETURN_IF_ERROR(ToStatus(batch.DeleteRange(parts_, from, stays)));
    from = PrefixEnd(stays);
  }
  RETURN_IF_ERROR(ToStatus(batch.DeleteRange(parts_, from, PrefixEnd(prefix))));
  RETURN_IF_ERROR(ToStatus(batch.Delete(rows_, Row(kWriting, owner))));
  return ToStatus(db_->Write(Synced(), &batch));
}

/// Stops the store after a write that failed, for good: what the disk has of it is not known.
Status RocksDbStore::Impl::Refuse(const rocksdb::Status& status) {
  healthy = false;
  const Status out = ToStatus(status);
  LogError("{}; nothing more is written there", out.message());
  return out.code() == StatusCode::kOverloaded ? out : IoError(out.message());
}

Result<IndexRow> RocksDbStore::Impl::ReadIndex(const std::string& owner) {
  std::string value;
  RETURN_IF_ERROR(ToStatus(db_->Get(rocksdb::ReadOptions(), rows_, Row(kIndex, owner), &value)));
  return DecodeIndex(owner, value);
}

Status RocksDbStore::Impl::Put(const std::string& owner, StoreObject object) {
  CHECK(!owner.empty() && owner.size() <= kMaxOwnerBytes);
  std::lock_guard lock(MutexOf(owner));
  if (!healthy) return Unavailable("disk tier: stopped after a failed write");
  ASSIGN_OR_RETURN(const ObjectKey key, KeyOf(owner));
  IndexRow before, after;
  if (auto row = ReadIndex(owner); row.ok()) {
    before = std::move(*row);
  } else if (row.status().code() != StatusCode::kNotFound) {
    return row.status();
  }
  after.bytes = static_cast<int64_t>(object.manifest.size());
  after.used_at = clock_.WallSeconds();
  for (StorePart& part : object.parts) part.key = StoredName(key, part.key);
  std::sort(object.parts.begin(), object.parts.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  const auto same = [](const StorePart& a, const StorePart& b) { return a.key == b.key; };
  object.parts.erase(std::unique(object.parts.begin(), object.parts.end(), same), object.parts.end());
  int64_t new_bytes = after.bytes;
  std::vector<StorePart> added;
  for (StorePart& part : object.parts) {
    const auto bytes = static_cast<int64_t>(part.bytes.size());
    after.parts.push_back(part.key);
    after.bytes += bytes;
    if (std::binary_search(before.parts.begin(), before.parts.end(), part.key)) continue;
    new_bytes += bytes;
    added.push_back(std::move(part));
  }
  RETURN_IF_ERROR(Promise(new_bytes, after.bytes - before.bytes));
  const Status committed = Commit(owner, key, object, added, before, after);
  std::lock_guard promised(promised_mutex_);
  promised_bytes_ -= new_bytes;
  if (committed.ok()) index.Set(owner, after.bytes, clock_.MonotonicNs());
  return committed;
}

/// Room for an object that has so many bytes that are not there yet, and is so much larger than the one before it.
Status RocksDbStore::Impl::Promise(int64_t new_bytes, int64_t grows_by) {
  std::lock_guard lock(promised_mutex_);
  if (index.bytes() + promised_bytes_ + grows_by > options_.budget_bytes)
    return Overloaded("disk tier: over its budget");
  uint64_t free_bytes = 0;
  const auto asked = settings_.env->GetFileSystem()->GetFreeSpace(options_.path, {}, &free_bytes, nullptr);
  free_bytes = std::min<uint64_t>(free_bytes, std::numeric_limits<int64_t>::max());
  if (asked.ok() && static_cast<int64_t>(free_bytes) < options_.min_free_bytes + promised_bytes_ + new_bytes) {
    return Overloaded("disk tier: the disk is full");
  }
  promised_bytes_ += new_bytes;
  return Status::Ok();
}

Status RocksDbStore::Impl::Commit(const std::string& owner, const ObjectKey& key, StoreObject& object,
                                  const std::vector<StorePart>& added, const IndexRow& before, const IndexRow& after) {
  if (RINGSIDE_DEFECT("manifest_before_parts")) {
    RETURN_IF_ERROR(ToStatus(db_->Put(Synced(), rows_, Row(kIndex, owner), EncodeIndex(owner, after))));
    RETURN_IF_ERROR(ToStatus(db_->Put(Synced(), rows_, Row(kManifest, owner), object.manifest)));
  }
  if (!added.empty()) {
    const rocksdb::Status noted = db_->Put(Synced(), rows_, Row(kWriting, owner), rocksdb::Slice());
    if (!noted.ok()) return Refuse(noted);
    RETURN_IF_ERROR(WriteParts(owner, key, added));
  }
  rocksdb::WriteBatch batch;
  batch.Put(rows_, Row(kManifest, owner), SealManifest(key, owner, std::move(object.manifest))).PermitUncheckedError();
  batch.Put(rows_, Row(kIndex, owner), EncodeIndex(owner, after)).PermitUncheckedError();
  batch.Delete(rows_, Row(kWriting, owner)).PermitUncheckedError();
  for (const ChunkHash& part : before.parts) {
    if (std::binary_search(after.parts.begin(), after.parts.end(), part)) continue;
    const std::string row = PartKey(owner, part);
    batch.DeleteRange(parts_, row, PrefixEnd(row)).PermitUncheckedError();
  }
  if (!healthy) return Unavailable("disk tier: stopped after a failed write");  // meanwhile
  const rocksdb::Status committed = db_->Write(Synced(), &batch);
  return committed.ok() ? Status::Ok() : Refuse(committed);
}

Status RocksDbStore::Impl::WriteParts(const std::string& owner, const ObjectKey& key,
                                      const std::vector<StorePart>& parts) {
  rocksdb::Options settings(settings_);
  static_cast<rocksdb::ColumnFamilyOptions&>(settings) = PartsOptions(settings_);
  rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), settings, parts_);
  const std::string draft = drafts() + "/" + std::to_string(drafts_made_++) + ".sst";
  rocksdb::Status status = writer.Open(draft);
  for (const StorePart& part : parts) {
    const std::string row = PartKey(owner, part.key);
    const std::string_view bytes(reinterpret_cast<const char*>(part.bytes.data()), part.bytes.size());
    CHECK_LT(bytes.size() / kPieceBytes, kMaxPieces);
    for (size_t piece = 0; status.ok() && piece * kPieceBytes < bytes.size(); ++piece) {
      const std::string_view plain = bytes.substr(piece * kPieceBytes, kPieceBytes);
      const std::string sealed = key ? SealPiece(*key, owner, part.key, piece, plain) : std::string();
      status = writer.Put(PieceKey(row, piece), ToSlice(key ? sealed : plain));
    }
  }
  if (status.ok()) status = writer.Finish();  // synced
  if (!status.ok()) {                         // a file that nobody will look at: the store itself is sound
    settings_.env->DeleteFile(draft).PermitUncheckedError();
    return ToStatus(status);
  }
  rocksdb::IngestExternalFileOptions take;
  take.move_files = true;
  take.write_global_seqno = false;
  take.snapshot_consistency = false;
  status = db_->IngestExternalFile(parts_, {draft}, take);
  return status.ok() ? Status::Ok() : Refuse(status);
}

Result<std::string> RocksDbStore::Impl::GetManifest(const std::string& owner) {
  if (!index.Find(owner)) return NotFound("disk tier: no such object");
  std::string value;
  RETURN_IF_ERROR(ToStatus(db_->Get(rocksdb::ReadOptions(), rows_, Row(kManifest, owner), &value)));
  ASSIGN_OR_RETURN(const ObjectKey key, KeyOf(owner));
  return OpenManifest(key, owner, std::move(value));
}

Result<Blob> RocksDbStore::Impl::GetPart(const std::string& owner, const ChunkHash& key, size_t bytes) {
  ASSIGN_OR_RETURN(const ObjectKey seal, KeyOf(owner));
  Blob out = Blob::Make(bytes);
  const ChunkHash name = StoredName(seal, key);
  const std::string part = PartKey(owner, name);
  rocksdb::PinnableSlice piece;
  for (size_t i = 0, at = 0; at < bytes; ++i) {
    RETURN_IF_ERROR(ToStatus(db_->Get(rocksdb::ReadOptions(), parts_, PieceKey(part, i), &piece)));
    const size_t wanted = std::min(kPieceBytes, bytes - at);
    if (piece.size() != wanted + (seal ? kSealOverheadBytes : 0)) {
      return Corruption("disk tier: a part of another size");
    }
    if (seal) {
      RETURN_IF_ERROR(OpenPieceInto(*seal, owner, name, i, piece.ToStringView(), out.writable() + at));
    } else {
      std::memcpy(out.writable() + at, piece.data(), wanted);
    }
    at += wanted;
    piece.Reset();
  }
  return out;
}

Status RocksDbStore::Impl::Erase(const std::string& owner) {
  std::lock_guard lock(MutexOf(owner));
  if (!index.Find(owner)) return Status::Ok();
  index.Remove(owner);  // whatever the disk says, it is not found any more
  if (!healthy) return Unavailable("disk tier: stopped after a failed write");
  const std::string from = PartsPrefix(owner), to = PrefixEnd(from);
  rocksdb::WriteBatch batch;
  batch.Delete(rows_, Row(kManifest, owner)).PermitUncheckedError();
  batch.Delete(rows_, Row(kIndex, owner)).PermitUncheckedError();
  batch.DeleteRange(parts_, from, to).PermitUncheckedError();
  const rocksdb::Status erased = db_->Write(Synced(), &batch);
  if (!erased.ok()) return Refuse(erased);
  // Files that hold nothing else go at once; the others with a compaction.
  const rocksdb::Slice begin(from), end(to);
  rocksdb::DeleteFilesInRange(db_.get(), parts_, &begin, &end, /*include_end=*/false).PermitUncheckedError();
  return Status::Ok();
}

Status RocksDbStore::Impl::Purge() {
  rocksdb::CompactRangeOptions options;
  options.exclusive_manual_compaction = false;
  options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
  for (rocksdb::ColumnFamilyHandle* family : {rows_, parts_}) {
    RETURN_IF_ERROR(ToStatus(db_->Flush(rocksdb::FlushOptions(), family)));
    RETURN_IF_ERROR(ToStatus(db_->CompactRange(options, family, nullptr, nullptr)));
  }
  return Status::Ok();
}

Result<std::unique_ptr<RocksDbStore>> RocksDbStore::Open(const RocksDbStoreOptions& options, const Clock& clock) {
  auto impl = std::make_unique<Impl>(options, clock);
  RETURN_IF_ERROR(impl->Open());
  return std::unique_ptr<RocksDbStore>(new RocksDbStore(std::move(impl)));
}
RocksDbStore::RocksDbStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RocksDbStore::~RocksDbStore() = default;
Status RocksDbStore::Put(const std::string& owner, StoreObject object) { return impl_->Put(owner, std::move(object)); }
Result<std::string> RocksDbStore::GetManifest(const std::string& owner) { return impl_->GetManifest(owner); }
Result<Blob> RocksDbStore::GetPart(const std::string& owner, const ChunkHash& key, size_t bytes) {
  return impl_->GetPart(owner, key, bytes);
}
Status RocksDbStore::Erase(const std::string& owner) { return impl_->Erase(owner); }
StoreIndex& RocksDbStore::index() { return impl_->index; }
int64_t RocksDbStore::budget_bytes() const { return impl_->budget_bytes(); }
Status RocksDbStore::Purge() { return impl_->Purge(); }
bool RocksDbStore::healthy() const { return impl_->healthy; }

}  // namespace ringside
