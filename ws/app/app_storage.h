// The server's storage: the journal and the cache tiers, opened at start, and the thread that erases deleted caches.
// Owned by the App; outlives the sessions and the engine.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "cache/store/rocksdb_store.h"
#include "cache/store/tiered_store.h"
#include "engine/engine.h"
#include "session/journal/journal.h"
#include "ws/config/config.h"

namespace ringside {

class Model;

/// Exit status of the process after the storage failed to open or failed later.
int StorageExitCode(const Status& status);

/// Returns the key that seals exports: from the configured file, or from the store, creating either if missing; a key
/// of this process alone if there is no store. REQUIRES: the folder exists. ERRORS: kInvalidArgument, naming the file.
Result<SealKey> OpenExportKey(const ServerConfig& config, const Journal* journal);

class Storage {
 public:
  /// Opens the storage; without a store, host memory only.
  /// ERRORS: as Journal::Open, OpenPostgresLog and RocksDbStore::Open.
  static Result<std::unique_ptr<Storage>> Open(const ServerConfig& config);
  ~Storage();

  /// Null if nothing is recorded.
  Journal* journal() const { return journal_.get(); }
  /// True if several servers share the store.
  bool shared() const { return journal_ != nullptr && journal_->shared() != nullptr; }
  const TieredStore& tiers() const { return *tiers_; }
  TieredStore& mutable_tiers() { return *tiers_; }
  EngineStorage ForEngine(const Model& model) const;
  /// Erases caches of sessions for which `exists` is false: a crash may have separated the two deletions. Blocks.
  void Forget(const std::function<bool(const std::string& session)>& exists) { tiers_->Reconcile(exists); }
  /// False once a write of the journal has failed, or its files are lost.
  bool healthy() const { return journal_ == nullptr || journal_->healthy(); }
  /// True once the journal's files have been deleted, moved or replaced.
  bool lost() const { return journal_ != nullptr && journal_->lost(); }
  /// Reason why turns are refused, as Journal::Check. Accesses the file system.
  Status Check() const { return journal_ == nullptr ? Status::Ok() : journal_->Check(); }

 private:
  explicit Storage(const ServerConfig& config) : config_(config) {}
  Status OpenJournal();
  /// Null: no caches on disk.
  Result<std::unique_ptr<RocksDbStore>> OpenDisk();
  void PurgeNowAndThen();

  const ServerConfig config_;
  std::stop_source stopping_store_;  // nothing waits any longer for a database that is away
  std::unique_ptr<Journal> journal_;
  RocksDbStore* disk_ = nullptr;  // owned by tiers_
  std::unique_ptr<TieredStore> tiers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread purging_;
};

}  // namespace ringside
