#include "ws/app/app_storage.h"

#include <pthread.h>

#include <algorithm>

#include "base/limits.h"
#include "base/log.h"
#include "cache/store/ram_store.h"
#include "engine/model/model.h"
#include "ws/app/app.h"
#include "ws/config/config_key.h"
#include "ws/config/machine.h"

namespace ringside {

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

Result<SealKey> OpenExportKey(const ServerConfig& config) {
  std::string path = config.export_key_file;
  const bool stored = !config.store_path.empty() && config.durability != StoreDurability::kNone;
  if (path.empty() && stored) path = config.store_path + "/export.key";
  if (path.empty()) return SealKey::Random();
  const Result<std::string> key = ReadOrMakeKey(path);
  if (!key.ok()) return InvalidArgument("--export-key-file: " + key.status().message());
  return SealKey(*key);
}

Result<std::unique_ptr<Storage>> Storage::Open(const ServerConfig& config) {
  std::unique_ptr<Storage> storage(new Storage(config));
  std::unique_ptr<RocksDbStore> disk;
  if (!config.store_path.empty() && config.durability != StoreDurability::kNone) {
    RETURN_IF_ERROR(PrepareStoreFolder(config.store_path));
    JournalOptions log;
    log.path = config.store_path;
    log.accept_lost_tail = config.accept_lost_tail;
    if (!config.encryption_key.empty()) log.master_key = SealKey(config.encryption_key);
    ASSIGN_OR_RETURN(storage->journal_, Journal::Open(log));
    RocksDbStoreOptions kv;
    kv.uptime_s = [journal = storage->journal_.get()] { return journal->UptimeSeconds(); };
    if (log.master_key) {
      kv.key_of = [journal = storage->journal_.get()](const std::string& owner) { return journal->KeyOf(owner); };
    }
    kv.path = config.store_path;
    kv.budget_bytes = config.disk_cache_mb << 20;
    if (kv.budget_bytes > 0) {
      ASSIGN_OR_RETURN(disk, RocksDbStore::Open(kv));
      storage->disk_ = disk.get();
    }
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

Storage::~Storage() {
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
