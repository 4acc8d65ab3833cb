// The server's storage as one thing: the journal and the cache's tiers, opened at start, and the thread that clears
// away what was deleted. Owned by the App; outlives the sessions and the engine.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "cache/store/rocksdb_store.h"
#include "cache/store/tiered_store.h"
#include "engine/engine.h"
#include "session/journal/journal.h"
#include "ws/config/config.h"

namespace ringside {

class Model;

/// How the process ends where the storage would not open, or failed.
int StorageExitCode(const Status& status);

/// The key that seals exports: from its file, or from the one beside what is stored, each made if it is not there; a
/// key of this process alone where nothing is stored. The folder must be there. kInvalidArgument, naming the file.
Result<SealKey> OpenExportKey(const ServerConfig& config);

class Storage {
 public:
  /// Without a store path: host memory only. Errors as Journal::Open and RocksDbStore::Open.
  static Result<std::unique_ptr<Storage>> Open(const ServerConfig& config);
  ~Storage();

  /// Null where nothing is recorded.
  Journal* journal() const { return journal_.get(); }
  const TieredStore& tiers() const { return *tiers_; }
  EngineStorage ForEngine(const Model& model) const;
  /// Erases the caches of sessions that `exists` does not know: a crash may have come between. Blocks.
  void Forget(const std::function<bool(const std::string& session)>& exists) { tiers_->Reconcile(exists); }
  /// False once a write of the journal has failed, or its files are lost.
  bool healthy() const { return journal_ == nullptr || journal_->healthy(); }
  /// True once the journal's files were deleted, moved or replaced.
  bool lost() const { return journal_ != nullptr && journal_->lost(); }
  /// Why turns are refused now, as Journal::Check. Asks the file system.
  Status Check() const { return journal_ == nullptr ? Status::Ok() : journal_->Check(); }

 private:
  explicit Storage(const ServerConfig& config) : config_(config) {}
  void PurgeNowAndThen();

  const ServerConfig config_;
  std::unique_ptr<Journal> journal_;
  RocksDbStore* disk_ = nullptr;  // owned by tiers_
  std::unique_ptr<TieredStore> tiers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread purging_;
};

}  // namespace ringside
