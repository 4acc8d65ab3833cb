// Bytes that wait in the outboxes of each owner, and in all: many readers that are each a little slow could hold as
// much as one that does not read. Owned by the ServerContext; any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

namespace ringside {

/// One outbox's. Used under its lock.
class OutboxShare {
 public:
  struct Count {
    const int64_t most;
    std::atomic<int64_t> bytes{0};
  };

  OutboxShare(std::shared_ptr<Count> of_owner, std::shared_ptr<Count> of_all)
      : of_owner_(std::move(of_owner)), of_all_(std::move(of_all)) {}
  ~OutboxShare() { Set(0); }
  OutboxShare(const OutboxShare&) = delete;
  OutboxShare& operator=(const OutboxShare&) = delete;

  /// `bytes` wait there now.
  void Set(size_t bytes) {
    const int64_t more = static_cast<int64_t>(bytes) - std::exchange(bytes_, static_cast<int64_t>(bytes));
    of_owner_->bytes += more;
    of_all_->bytes += more;
  }
  /// True if the bytes of the owner, or of all, are over their limit.
  bool over() const { return of_owner_->bytes > of_owner_->most || of_all_->bytes > of_all_->most; }

 private:
  const std::shared_ptr<Count> of_owner_, of_all_;
  int64_t bytes_ = 0;
};

class OutboxBudget {
 public:
  /// `most`: of all. Where keys tell owners apart, each has half.
  explicit OutboxBudget(int64_t most) : all_(new OutboxShare::Count{most}) {}

  std::unique_ptr<OutboxShare> Of(const std::string& owner) {
    std::lock_guard lock(mutex_);
    std::shared_ptr<OutboxShare::Count>& count = owners_[owner];
    if (count == nullptr) count.reset(new OutboxShare::Count{owner.empty() ? all_->most : all_->most / 2});
    return std::make_unique<OutboxShare>(count, all_);
  }

 private:
  const std::shared_ptr<OutboxShare::Count> all_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<OutboxShare::Count>> owners_;  // those with a key: never many
};

}  // namespace ringside
