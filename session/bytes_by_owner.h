// Bytes held by each owner: memory of its sessions and running requests, or journal space. Shared by a table, its
// sessions and its faces.
// THREAD: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

namespace ringside {

class BytesByOwner {
 public:
  /// Returns the owner's counter, which outlives this object if held elsewhere. Only owners with a key have one, so the
  /// map stays small.
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

/// Counts bytes for an owner and in total during its lifetime. Move-only.
class HeldBytes {
 public:
  HeldBytes() = default;
  HeldBytes(std::shared_ptr<std::atomic<int64_t>> of_owner, std::shared_ptr<std::atomic<int64_t>> of_all, int64_t bytes)
      : of_owner_(std::move(of_owner)), of_all_(std::move(of_all)), bytes_(bytes) {
    *of_owner_ += bytes_;
    *of_all_ += bytes_;
  }
  HeldBytes(HeldBytes&& other) noexcept { *this = std::move(other); }
  HeldBytes& operator=(HeldBytes&& other) noexcept {
    std::swap(of_owner_, other.of_owner_);
    std::swap(of_all_, other.of_all_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~HeldBytes() {
    if (of_owner_ == nullptr) return;
    *of_owner_ -= bytes_;
    *of_all_ -= bytes_;
  }

 private:
  std::shared_ptr<std::atomic<int64_t>> of_owner_, of_all_;
  int64_t bytes_ = 0;
};

}  // namespace ringside
