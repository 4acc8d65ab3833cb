#include "cache/store/rocksdb_store.h"

#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
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
#include "base/open_files.h"
#include "cache/store/database_settings.h"
#include "cache/store/index_row.h"
#include "cache/store/sealed_object.h"
#include "cache/store/torn_log.h"

namespace ringside {
namespace {

// Default column family: "schema"; 'i' owner -> size and last use; 'm' owner -> manifest; 'w' owner -> marks a write of
// its parts in progress. Column family "parts": length(owner) owner hash(16) chunk(2) -> at most kPieceBytes of the
// part.
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

std::string Row(char kind, std::string_view owner) { return std::string(1, kind).append(owner); }

std::string PartsPrefix(std::string_view owner) {
  std::string key(1, static_cast<char>(owner.size()));
  return key.append(owner);
}
/// The first key after all keys with this prefix.
std::string PrefixEnd(std::string prefix) {
  while (static_cast<uint8_t>(prefix.back()) == 0xff) prefix.pop_back();
  ++prefix.back();
  return prefix;
}
/// Keys sort in the order of ChunkHash.
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

rocksdb::Options MakeOptions(rocksdb::Env* env) {
  rocksdb::Options options;
  SetCommon(&options);
  if (env != nullptr) options.env = env;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.write_buffer_size = size_t{4} << 20;             // manifests only: parts bypass the memtables
  options.max_open_files = ShareOfOpenFiles(4, 64, 1024);  // leaves the rest to sockets and the journal
  options.skip_stats_update_on_db_open = true;
  rocksdb::BlockBasedTableOptions table;
  table.checksum = rocksdb::kXXH3;  // without it a damaged index block would be undetected
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

rocksdb::ColumnFamilyOptions PartsOptions(const rocksdb::Options& options) {
  rocksdb::ColumnFamilyOptions parts(options);
  // Values are large and read once, so caching would only add a copy. Compaction only reclaims erased bytes.
  rocksdb::BlockBasedTableOptions table;
  table.checksum = rocksdb::kXXH3;
  table.no_block_cache = true;
  parts.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  parts.target_file_size_base = uint64_t{256} << 20;
  parts.level0_file_num_compaction_trigger = 16;
  // Ingested files of different owners overlap and stay in level 0 for a while. Disable the write stalls: only
  // ingestion writes to this family, and a stall would also hold up the manifests.
  parts.level0_slowdown_writes_trigger = parts.level0_stop_writes_trigger = std::numeric_limits<int>::max();
  parts.soft_pending_compaction_bytes_limit = parts.hard_pending_compaction_bytes_limit = 0;
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
  std::vector<Status> PutAll(std::vector<NamedObject> objects);
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
  struct Draft {  // an object to be written
    std::string owner;
    ObjectKey key;
    std::string manifest;
    std::vector<StorePart> added;  // ascending
    IndexRow before, after;
    int64_t new_bytes = 0;  // reserved
  };
  Result<Draft> MakeDraft(NamedObject named);
  /// All or nothing. Reorders the drafts.
  Status Commit(std::vector<Draft>& drafts);
  Status WriteParts(std::vector<Draft>& drafts);
  rocksdb::Status WriteParts(rocksdb::SstFileWriter& writer, const Draft& draft) const;
  double UptimeSeconds() const {
    return options_.uptime_s ? options_.uptime_s() : static_cast<double>(clock_.MonotonicNs()) * 1e-9;
  }
  static Status Stopped() { return Unavailable("disk tier: stopped after a failed write"); }
  std::string name() const { return options_.path + "/kv"; }
  std::string drafts_folder() const { return options_.path + "/kv.new"; }

  const RocksDbStoreOptions options_;
  const Clock& clock_;
  const rocksdb::Options settings_;
  std::unique_ptr<rocksdb::DB> db_;
  rocksdb::ColumnFamilyHandle* rows_ = nullptr;
  rocksdb::ColumnFamilyHandle* parts_ = nullptr;
  size_t StripeOf(const std::string& owner) const { return std::hash<std::string>()(owner) % owner_mutexes_.size(); }

  // Striped: one Put or Erase of an owner at a time. ThreadSanitizer follows up to 63 locks of a thread.
  std::array<std::mutex, 32> owner_mutexes_;
  std::mutex reservation_mutex_;
  int64_t reserved_bytes_ = 0;  // reserved for objects being written
  std::atomic<uint64_t> files_made_{0};
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
    ASSIGN_OR_RETURN(const bool torn, TruncateTornTail(name(), 0));
    if (torn) status = OpenOnce();
  }
  if (status.code() != StatusCode::kCorruption && status.code() != StatusCode::kMismatch &&
      status.code() != StatusCode::kNotFound) {
    return status;
  }
  LogWarning("{}; discarding {}: its caches will be recomputed", status.message(), name());
  Close();
  std::filesystem::remove_all(name(), error);
  if (error) return IoError("disk tier: " + name() + ": " + error.message());
  index.Clear();
  return OpenOnce();
}

Status RocksDbStore::Impl::OpenOnce() {
  std::error_code error;
  std::filesystem::remove_all(drafts_folder(), error);
  if (!error) std::filesystem::create_directories(drafts_folder(), error);
  if (error) return IoError("disk tier: " + drafts_folder() + ": " + error.message());
  const std::vector<rocksdb::ColumnFamilyDescriptor> families = {
      {rocksdb::kDefaultColumnFamilyName, rocksdb::ColumnFamilyOptions(settings_)}, {"parts", PartsOptions(settings_)}};
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  try {
    const rocksdb::Status opened = rocksdb::DB::Open(settings_, name(), families, &handles, &db);
    if (IsInUse(opened)) {
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
  // Objects used before this start keep their order and their age. Older versions wrote seconds since 1970, which no
  // uptime reaches; these objects count as old as the oldest of the others.
  const int64_t now_ns = clock_.MonotonicNs();
  const double now = UptimeSeconds();
  constexpr double kSince1970 = 1e9;
  const auto is_since_1970 = [](const auto& entry) { return entry.first >= kSince1970; };
  std::sort(found.begin(), found.end());
  std::rotate(found.begin(), std::find_if(found.begin(), found.end(), is_since_1970), found.end());
  const auto oldest = std::find_if_not(found.begin(), found.end(), is_since_1970);
  const double most_age = oldest == found.end() ? 0 : std::max(0.0, now - oldest->first);
  for (const auto& [used_at, object] : found) {
    const double age = used_at >= kSince1970 ? most_age : std::max(0.0, now - used_at);
    index.Set(object.first, object.second, now_ns - static_cast<int64_t>(age * 1e9));
  }
  for (const std::string& owner : half_written) RETURN_IF_ERROR(Sweep(owner));
  return Status::Ok();
}

// Deletes the parts of `owner` that its manifest does not name: a crash between ingestion and commit leaves them.
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
  for (const ChunkHash& part : kept) {  // delete the key range between two kept parts
    const std::string stays = PartKey(owner, part);
    RETURN_IF_ERROR(ToStatus(batch.DeleteRange(parts_, from, stays)));
    from = PrefixEnd(stays);
  }
  RETURN_IF_ERROR(ToStatus(batch.DeleteRange(parts_, from, PrefixEnd(prefix))));
  RETURN_IF_ERROR(ToStatus(batch.Delete(rows_, Row(kWriting, owner))));
  return ToStatus(db_->Write(Synced(), &batch));
}

/// Stops all writes for good after a failed one: the state on disk is unknown.
Status RocksDbStore::Impl::Refuse(const rocksdb::Status& status) {
  healthy = false;
  const Status out = ToStatus(status);
  LogError("{}; the disk tier refuses further writes", out.message());
  return out.code() == StatusCode::kOverloaded ? out : IoError(out.message());
}

Result<IndexRow> RocksDbStore::Impl::ReadIndex(const std::string& owner) {
  std::string value;
  RETURN_IF_ERROR(ToStatus(db_->Get(rocksdb::ReadOptions(), rows_, Row(kIndex, owner), &value)));
  return DecodeIndex(owner, value);
}

Result<RocksDbStore::Impl::Draft> RocksDbStore::Impl::MakeDraft(NamedObject named) {
  CHECK(!named.owner.empty() && named.owner.size() <= kMaxOwnerBytes);
  ASSIGN_OR_RETURN(const ObjectKey key, KeyOf(named.owner));
  Draft draft{.owner = std::move(named.owner), .key = key};
  if (auto row = ReadIndex(draft.owner); row.ok()) {
    draft.before = std::move(*row);
  } else if (row.status().code() != StatusCode::kNotFound) {
    return row.status();
  }
  IndexRow& after = draft.after;
  after.bytes = draft.new_bytes = static_cast<int64_t>(named.object.manifest.size());
  after.used_at = UptimeSeconds();
  draft.manifest = std::move(named.object.manifest);
  std::vector<StorePart>& parts = named.object.parts;
  for (StorePart& part : parts) part.key = StoredName(key, part.key);
  std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  const auto same = [](const StorePart& a, const StorePart& b) { return a.key == b.key; };
  parts.erase(std::unique(parts.begin(), parts.end(), same), parts.end());
  for (StorePart& part : parts) {
    const auto bytes = static_cast<int64_t>(part.bytes.size());
    after.parts.push_back(part.key);
    after.bytes += bytes;
    if (std::binary_search(draft.before.parts.begin(), draft.before.parts.end(), part.key)) continue;
    draft.new_bytes += bytes;
    draft.added.push_back(std::move(part));
  }
  RETURN_IF_ERROR(Promise(draft.new_bytes, after.bytes - draft.before.bytes));
  return draft;
}

std::vector<Status> RocksDbStore::Impl::PutAll(std::vector<NamedObject> objects) {
  std::set<size_t> stripes;  // ascending lock order avoids deadlock between two PutAll calls
  for (const NamedObject& named : objects) stripes.insert(StripeOf(named.owner));
  std::vector<std::unique_lock<std::mutex>> locks;
  for (const size_t stripe : stripes) locks.emplace_back(owner_mutexes_[stripe]);
  std::vector<Status> out(objects.size());
  std::vector<Draft> drafts;
  std::vector<size_t> places;  // index in `out` of each draft
  for (size_t i = 0; i < objects.size(); ++i) {
    Result<Draft> draft = healthy ? MakeDraft(std::move(objects[i])) : Stopped();
    out[i] = draft.status();
    if (!draft.ok()) continue;
    drafts.push_back(std::move(*draft));
    places.push_back(i);
  }
  if (drafts.empty()) return out;
  const Status committed = Commit(drafts);
  std::lock_guard promised(reservation_mutex_);
  for (size_t i = 0; i < drafts.size(); ++i) {
    reserved_bytes_ -= drafts[i].new_bytes;
    out[places[i]] = committed;
    if (committed.ok()) index.Set(drafts[i].owner, drafts[i].after.bytes, clock_.MonotonicNs());
  }
  return out;
}

/// Reserves space for an object with `new_bytes` bytes to write, larger by `grows_by` than the one it replaces.
Status RocksDbStore::Impl::Promise(int64_t new_bytes, int64_t grows_by) {
  std::lock_guard lock(reservation_mutex_);
  if (index.bytes() + reserved_bytes_ + grows_by > options_.budget_bytes)
    return Overloaded("disk tier: over its budget");
  uint64_t free_bytes = 0;
  const auto asked = settings_.env->GetFileSystem()->GetFreeSpace(options_.path, {}, &free_bytes, nullptr);
  free_bytes = std::min<uint64_t>(free_bytes, std::numeric_limits<int64_t>::max());
  if (asked.ok() && static_cast<int64_t>(free_bytes) < options_.min_free_bytes + reserved_bytes_ + new_bytes) {
    return Overloaded("disk tier: the disk is full");
  }
  reserved_bytes_ += new_bytes;
  return Status::Ok();
}

Status RocksDbStore::Impl::Commit(std::vector<Draft>& drafts) {
  if (RINGSIDE_DEFECT("manifest_before_parts")) {
    for (const Draft& draft : drafts) {
      RETURN_IF_ERROR(
          ToStatus(db_->Put(Synced(), rows_, Row(kIndex, draft.owner), EncodeIndex(draft.owner, draft.after))));
      RETURN_IF_ERROR(ToStatus(db_->Put(Synced(), rows_, Row(kManifest, draft.owner), draft.manifest)));
    }
  }
  rocksdb::WriteBatch notes;
  for (const Draft& draft : drafts) {
    if (!draft.added.empty()) notes.Put(rows_, Row(kWriting, draft.owner), rocksdb::Slice()).PermitUncheckedError();
  }
  if (notes.Count() > 0) {
    const rocksdb::Status noted = db_->Write(Synced(), &notes);
    if (!noted.ok()) return Refuse(noted);
    RETURN_IF_ERROR(WriteParts(drafts));
  }
  rocksdb::WriteBatch batch;
  for (Draft& draft : drafts) {
    const std::string& owner = draft.owner;
    std::string manifest = SealManifest(draft.key, owner, std::move(draft.manifest));
    batch.Put(rows_, Row(kManifest, owner), manifest).PermitUncheckedError();
    batch.Put(rows_, Row(kIndex, owner), EncodeIndex(owner, draft.after)).PermitUncheckedError();
    batch.Delete(rows_, Row(kWriting, owner)).PermitUncheckedError();
    for (const ChunkHash& part : draft.before.parts) {
      if (std::binary_search(draft.after.parts.begin(), draft.after.parts.end(), part)) continue;
      const std::string row = PartKey(owner, part);
      batch.DeleteRange(parts_, row, PrefixEnd(row)).PermitUncheckedError();
    }
  }
  if (!healthy) return Stopped();  // another write failed meanwhile
  const rocksdb::Status committed = db_->Write(Synced(), &batch);
  return committed.ok() ? Status::Ok() : Refuse(committed);
}

rocksdb::Status RocksDbStore::Impl::WriteParts(rocksdb::SstFileWriter& writer, const Draft& draft) const {
  rocksdb::Status status;
  for (const StorePart& part : draft.added) {
    const std::string row = PartKey(draft.owner, part.key);
    const std::string_view bytes(reinterpret_cast<const char*>(part.bytes.data()), part.bytes.size());
    CHECK_LT(bytes.size() / kPieceBytes, kMaxPieces);
    for (size_t piece = 0; status.ok() && piece * kPieceBytes < bytes.size(); ++piece) {
      const std::string_view plain = bytes.substr(piece * kPieceBytes, kPieceBytes);
      const std::string sealed = draft.key ? SealPiece(*draft.key, draft.owner, part.key, piece, plain) : std::string();
      status = writer.Put(PieceKey(row, piece), ToSlice(draft.key ? sealed : plain));
    }
  }
  return status;
}

Status RocksDbStore::Impl::WriteParts(std::vector<Draft>& drafts) {
  // Rows of a sorted file must ascend.
  std::sort(drafts.begin(), drafts.end(),
            [](const Draft& a, const Draft& b) { return PartsPrefix(a.owner) < PartsPrefix(b.owner); });
  rocksdb::Options settings(settings_);
  static_cast<rocksdb::ColumnFamilyOptions&>(settings) = PartsOptions(settings_);
  rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), settings, parts_);
  const std::string file = drafts_folder() + "/" + std::to_string(files_made_++) + ".sst";
  rocksdb::Status status = writer.Open(file);
  for (const Draft& draft : drafts) {
    if (status.ok()) status = WriteParts(writer, draft);
  }
  if (status.ok()) status = writer.Finish();  // synced
  if (!status.ok()) {                         // the file is never ingested: the store itself is intact
    settings_.env->DeleteFile(file).PermitUncheckedError();
    return ToStatus(status);
  }
  rocksdb::IngestExternalFileOptions take;
  take.move_files = true;
  take.write_global_seqno = false;
  take.snapshot_consistency = false;
  status = db_->IngestExternalFile(parts_, {file}, take);
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
  std::lock_guard lock(owner_mutexes_[StripeOf(owner)]);
  if (!index.Find(owner)) return Status::Ok();
  index.Remove(owner);  // hidden from readers whatever the disk returns
  if (!healthy) return Stopped();
  const std::string from = PartsPrefix(owner), to = PrefixEnd(from);
  rocksdb::WriteBatch batch;
  batch.Delete(rows_, Row(kManifest, owner)).PermitUncheckedError();
  batch.Delete(rows_, Row(kIndex, owner)).PermitUncheckedError();
  batch.DeleteRange(parts_, from, to).PermitUncheckedError();
  const rocksdb::Status erased = db_->Write(Synced(), &batch);
  if (!erased.ok()) return Refuse(erased);
  // Files with nothing else are deleted at once; others shrink at the next compaction.
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
Status RocksDbStore::Put(const std::string& owner, StoreObject object) {
  std::vector<NamedObject> one;
  one.push_back({owner, std::move(object)});
  return impl_->PutAll(std::move(one)).front();
}
std::vector<Status> RocksDbStore::PutAll(std::vector<NamedObject> objects) { return impl_->PutAll(std::move(objects)); }
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
