#include "ws/app/app_storage.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

#include "base/limits.h"
#include "base/log.h"
#include "cache/store/ram_store.h"
#include "engine/model/model.h"
#include "session/postgres/postgres_log.h"
#include "ws/app/app.h"
#include "ws/config/config_key.h"
#include "ws/config/machine.h"

namespace ringside {

namespace {

/// The host's name and the port, unless the operator gave another name.
std::string ServerName(const ServerConfig& config) {
  if (!config.server_name.empty()) return config.server_name;
  char host[HOST_NAME_MAX + 1] = {};
  if (gethostname(host, sizeof host - 1) != 0) return "ringside-" + std::to_string(config.port);
  return std::string(host) + '-' + std::to_string(config.port);
}

}  // namespace

int StorageExitCode(const Status& status) {
  switch (status.code()) {
    case StatusCode::kBusy:
      return kExitStoreInUse;
    case StatusCode::kCorruption:
      return kExitStoreDamaged;
    case StatusCode::kInvalidArgument:
    case StatusCode::kMismatch:
      return kExitBadConfig;
    default:
      return kExitStorageFailed;
  }
}

Result<SealKey> OpenExportKey(const ServerConfig& config, const Journal* journal) {
  std::string path = config.export_key_file;
  const bool stored = !config.store_path.empty() && config.durability != StoreDurability::kNone;
  if (path.empty() && journal != nullptr && journal->shared() != nullptr) return journal->ExportKey();
  if (path.empty() && stored) path = config.store_path + "/export.key";
  if (path.empty()) return SealKey::Random();
  const Result<std::string> key = ReadOrMakeKey(path);
  if (!key.ok()) return InvalidArgument("--export-key-file: " + key.status().message());
  return SealKey(*key);
}

Result<std::unique_ptr<Storage>> Storage::Open(const ServerConfig& config) {
  std::unique_ptr<Storage> storage(new Storage(config));
  std::unique_ptr<RocksDbStore> disk;
  if (config.durability != StoreDurability::kNone) {
    RETURN_IF_ERROR(storage->OpenJournal());
    ASSIGN_OR_RETURN(disk, storage->OpenDisk());
  }
  TieredStoreOptions tiers;
  tiers.host_idle_ms = config.session_idle_disk_ms;
  if (config.session_ttl_s > 0) tiers.disk_idle_ms = config.session_ttl_s * 1000;
  storage->tiers_ =
      std::make_unique<TieredStore>(std::make_unique<RamStore>(config.host_cache_mb << 20), std::move(disk), tiers);
  if (storage->journal_ != nullptr && config.purge_interval_s > 0) {
    storage->purging_ = std::thread([raw = storage.get()] { raw->PurgeNowAndThen(); });
    pthread_setname_np(storage->purging_.native_handle(), "purge");
  }
  return storage;
}

Status Storage::OpenJournal() {
  JournalOptions log;
  log.path = config_.store_path;
  log.accept_lost_tail = config_.accept_lost_tail;
  if (!config_.store_path.empty()) RETURN_IF_ERROR(PrepareStoreFolder(config_.store_path));
  if (!config_.encryption_key.empty()) log.master_key = SealKey(config_.encryption_key);
  if (!config_.store_url.empty()) {
    if (!config_.store_path.empty() && config_.durability == StoreDurability::kTurn)
      log.deltas_path = config_.store_path + "/answers";
    log.open_log = [&](const std::vector<RowChange>& initial, std::optional<int64_t> predecessor) {
      return OpenPostgresLog({.url = config_.store_url,
                              .server = ServerName(config_),
                              .lease_s = static_cast<double>(config_.lease_s),
                              .predecessor = predecessor,
                              .stop = stopping_store_.get_token()},
                             log.master_key, initial);
    };
  }
  ASSIGN_OR_RETURN(journal_, Journal::Open(log));
  return Status::Ok();
}

Result<std::unique_ptr<RocksDbStore>> Storage::OpenDisk() {
  RocksDbStoreOptions kv;
  kv.path = config_.store_path;
  kv.budget_bytes = config_.disk_cache_mb << 20;
  if (kv.path.empty() || kv.budget_bytes <= 0) return std::unique_ptr<RocksDbStore>();
  kv.uptime_s = [journal = journal_.get()] { return journal->UptimeSeconds(); };
  if (!config_.encryption_key.empty()) {
    kv.key_of = [journal = journal_.get()](const std::string& owner) { return journal->KeyOf(owner); };
  }
  ASSIGN_OR_RETURN(std::unique_ptr<RocksDbStore> disk, RocksDbStore::Open(kv));
  disk_ = disk.get();
  return disk;
}

Storage::~Storage() {
  stopping_store_.request_stop();
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (purging_.joinable()) purging_.join();
}

// Delay that avoids copying a conversation which a program continues at once.
constexpr int64_t kWriteBackMs = 200;

EngineStorage Storage::ForEngine(const Model& model) const {
  return {.tiers = tiers_.get(),
          .fingerprint = model.fingerprint(),
          .adapter_fingerprints = model.adapter_fingerprints(),
          .idle_ms = config_.session_idle_host_ms,
          .write_back_ms = kWriteBackMs,
          // Without a host tier: staging memory on the way to the disk.
          .pinned_bytes = std::max(config_.host_cache_mb << 20,
                                   config_.disk_cache_mb > 0 ? limits::kMinWaitingSnapshotBytes : int64_t{0})};
}

void Storage::PurgeNowAndThen() {
  const std::chrono::seconds interval(config_.purge_interval_s);
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, interval, [this] { return stopping_; })) {
    lock.unlock();
    if (const Status purged = journal_->Purge(); !purged.ok()) LogWarning("{}", purged.message());
    if (disk_ != nullptr) {
      if (const Status purged = disk_->Purge(); !purged.ok()) LogWarning("{}", purged.message());
    }
    lock.lock();
  }
}

}  // namespace ringside
