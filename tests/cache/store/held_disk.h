// A disk with controllable speed: every Put waits until the test releases it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cache/store/ram_store.h"
#include "cache/store/store.h"

namespace ringside {

class HeldDisk final : public Store {
 public:
  /// Shared with the test, which outlives the disk.
  class Gate {
   public:
    void LetThrough(int64_t puts) {
      std::lock_guard lock(mutex_);
      allowed_ += puts;
      changed_.notify_all();
    }
    void LetAllThrough() { LetThrough(INT32_MAX); }
    void WaitForPut() {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return begun_ > 0; });
    }
    int64_t puts() const {
      std::lock_guard lock(mutex_);
      return begun_;
    }
    /// Owners whose puts have started, in order; waits until there are `n`.
    std::vector<std::string> WaitForPuts(size_t n) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return owners_.size() >= n; });
      return owners_;
    }
    /// From now on puts take effect but do not return before LetStoredReturn.
    void HoldWhatIsStored() {
      std::lock_guard lock(mutex_);
      stored_held_ = true;
    }
    void LetStoredReturn() {
      std::lock_guard lock(mutex_);
      stored_held_ = false;
      changed_.notify_all();
    }
    void Return() {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !stored_held_; });
    }
    /// Number of objects in each PutAll.
    std::vector<size_t> batches() const {
      std::lock_guard lock(mutex_);
      return batches_;
    }
    void NoteBatch(size_t objects) {
      std::lock_guard lock(mutex_);
      batches_.push_back(objects);
    }
    void Pass(const std::string& owner) {
      std::unique_lock lock(mutex_);
      ++begun_;
      owners_.push_back(owner);
      changed_.notify_all();
      changed_.wait(lock, [&] { return allowed_ > 0; });
      --allowed_;
    }

   private:
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    int64_t begun_ = 0, allowed_ = 0;
    bool stored_held_ = false;
    std::vector<std::string> owners_;
    std::vector<size_t> batches_;
  };

  explicit HeldDisk(std::shared_ptr<Gate> gate, int64_t budget_bytes = int64_t{1} << 40)
      : gate_(std::move(gate)), inner_(budget_bytes) {}

  Status Put(const std::string& owner, StoreObject object) override {
    gate_->Pass(owner);
    const Status status = inner_.Put(owner, std::move(object));
    if (status.ok()) gate_->Return();
    return status;
  }
  std::vector<Status> PutAll(std::vector<NamedObject> objects) override {
    gate_->NoteBatch(objects.size());
    return Store::PutAll(std::move(objects));
  }
  Result<std::string> GetManifest(const std::string& owner) override { return inner_.GetManifest(owner); }
  Result<Blob> GetPart(const std::string& owner, const ChunkHash& key, size_t bytes) override {
    return inner_.GetPart(owner, key, bytes);
  }
  Status Erase(const std::string& owner) override { return inner_.Erase(owner); }
  StoreIndex& index() override { return inner_.index(); }
  int64_t budget_bytes() const override { return inner_.budget_bytes(); }

 private:
  const std::shared_ptr<Gate> gate_;
  RamStore inner_;
};

}  // namespace ringside
