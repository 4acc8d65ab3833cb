// Shared by engine tests with tiers: a folder, tiers on it that can be reopened, and a store that answers on demand.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>

#include "cache/store/ram_store.h"
#include "cache/store/rocksdb_store.h"
#include "cache/store/tiered_store.h"

namespace ringside {

/// A store decorator with a gate: while it is closed, readers wait.
class GatedStore final : public Store {
 public:
  explicit GatedStore(int64_t budget_bytes, const Clock& clock = SystemClock::Instance())
      : inner_(budget_bytes, clock) {}

  void Shut() {
    std::lock_guard lock(mutex_);
    shut_ = true;
  }
  void Open() {
    std::lock_guard lock(mutex_);
    shut_ = false;
    changed_.notify_all();
  }
  /// Waits until `n` readers have reached the closed gate since the start.
  void WaitForVisitors(int64_t n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return visitors_ >= n; });
  }

  Status Put(const std::string& owner, StoreObject object) override { return inner_.Put(owner, std::move(object)); }
  Result<std::string> GetManifest(const std::string& owner) override {
    Pass();
    return inner_.GetManifest(owner);
  }
  Result<Blob> GetPart(const std::string& owner, const ChunkHash& key, size_t bytes) override {
    Result<Blob> part = inner_.GetPart(owner, key, bytes);
    const int64_t read = parts_read_++;
    if (part.ok() && (damages_all_ || read == damaged_part_)) {
      Blob copy = Blob::CopyOf(part->bytes());
      copy.writable()[copy.size() / 2] ^= std::byte{1};
      return copy;
    }
    return part;
  }
  Status Erase(const std::string& owner) override { return inner_.Erase(owner); }
  StoreIndex& index() override { return inner_.index(); }
  int64_t budget_bytes() const override { return inner_.budget_bytes(); }

  /// Flips one bit of every part read from now on.
  void Damage() { damages_all_ = true; }
  /// Flips one bit of the n-th part read from now on.
  void DamagePart(int64_t n) { damaged_part_ = parts_read_ + n; }
  int64_t parts_read() const { return parts_read_; }

 private:
  void Pass() {
    std::unique_lock lock(mutex_);
    if (!shut_) return;
    ++visitors_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !shut_; });
  }

  RamStore inner_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool shut_ = false;
  std::atomic<bool> damages_all_{false};
  std::atomic<int64_t> parts_read_{0}, damaged_part_{-1};
  int64_t visitors_ = 0;
};

/// A data folder and its tiers: host memory and RocksDB, which outlive an engine and can be reopened.
class TierFolder {
 public:
  /// `in_memory`: on a RAM file system, if there is one.
  explicit TierFolder(bool in_memory = false) {
    const bool shared_memory = in_memory && std::filesystem::exists("/dev/shm");
    const auto place = shared_memory ? std::filesystem::path("/dev/shm") : std::filesystem::temp_directory_path();
    std::string name = (place / "engine_tiers.XXXXXX").string();
    CHECK(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TierFolder() {
    tiers_.reset();
    std::filesystem::remove_all(path_);
  }

  const std::string& path() const { return path_; }
  /// Closes and reopens the tiers: caches that were only in memory are lost. Idle times expire only in Sweep.
  TieredStore& Open(int64_t host_bytes, int64_t disk_bytes) {
    tiers_.reset();
    auto disk = RocksDbStore::Open({.path = path_, .budget_bytes = disk_bytes});
    CHECK(disk.ok());
    tiers_ = std::make_unique<TieredStore>(std::make_unique<RamStore>(host_bytes), std::move(*disk),
                                           TieredStoreOptions{.host_idle_ms = 0, .sweep_ms = 0});
    return *tiers_;
  }

 private:
  std::string path_;
  std::unique_ptr<TieredStore> tiers_;
};

/// Calls `call` with a callback and waits for it.
inline Status WaitFor(const std::function<void(std::function<void(const Status&)>)>& call) {
  std::promise<Status> told;
  call([&](const Status& status) { told.set_value(status); });
  return told.get_future().get();
}

}  // namespace ringside
