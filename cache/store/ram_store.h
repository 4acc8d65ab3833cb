// The host tier: objects in memory, within a budget of bytes. Shares the blobs that it is given, without a copy.
// THREAD: any.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/clock.h"
#include "cache/store/store.h"

namespace ringside {

class RamStore final : public Store {
 public:
  explicit RamStore(int64_t budget_bytes, const Clock& clock = SystemClock::Instance())
      : budget_bytes_(budget_bytes), clock_(clock) {}

  Status Put(const std::string& owner, StoreObject object) override;
  Result<std::string> GetManifest(const std::string& owner) override;
  Result<Blob> GetPart(const std::string& owner, const ChunkHash& key, size_t bytes) override;
  Status Erase(const std::string& owner) override;
  StoreIndex& index() override { return index_; }
  int64_t budget_bytes() const override { return budget_bytes_; }

 private:
  struct Object {
    std::string manifest;
    std::map<ChunkHash, Blob> parts;
  };
  const int64_t budget_bytes_;
  const Clock& clock_;
  std::mutex mutex_;
  std::unordered_map<std::string, Object> objects_;
  StoreIndex index_;
};

}  // namespace ringside
