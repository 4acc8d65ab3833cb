// Counts queued bytes of all outboxes, by owner and in total: many readers that are each slightly slow could hold as
// much memory as one that does not read. Owned by the ServerContext.
// THREAD: any.
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

/// Share of one outbox.
/// REQUIRES: used under the outbox's lock.
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

  /// Sets this outbox's queued bytes.
  void Set(size_t bytes) {
    const int64_t more = static_cast<int64_t>(bytes) - std::exchange(bytes_, static_cast<int64_t>(bytes));
    of_owner_->bytes += more;
    of_all_->bytes += more;
  }
  /// True if the owner, or all owners together, exceed their limit.
  bool over() const { return of_owner_->bytes > of_owner_->most || of_all_->bytes > of_all_->most; }

 private:
  const std::shared_ptr<Count> of_owner_, of_all_;
  int64_t bytes_ = 0;
};

class OutboxBudget {
 public:
  /// `most`: limit of all owners together. Where keys identify owners, each gets half.
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
  // only those with a key, so the map stays small
  std::unordered_map<std::string, std::shared_ptr<OutboxShare::Count>> owners_;
};

}  // namespace ringside
