// Memory that the sessions of each owner hold. Shared by a table and its sessions; any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace ringside {

class BytesByOwner {
 public:
  /// The owner's count, which lives on with whoever holds it. Owners are those that have a key: they are never many.
  std::shared_ptr<std::atomic<int64_t>> Of(const std::string& owner) {
    std::lock_guard lock(mutex_);
    std::shared_ptr<std::atomic<int64_t>>& count = counts_[owner];
    if (count == nullptr) count = std::make_shared<std::atomic<int64_t>>(0);
    return count;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<std::atomic<int64_t>>> counts_;
};

}  // namespace ringside
