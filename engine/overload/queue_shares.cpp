#include "engine/overload/queue_shares.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace ringside {

Status QueueShares::Enter(const std::string& tenant) {
  std::lock_guard lock(mutex_);
  const auto found = by_tenant_.find(tenant);
  const int64_t own = found == by_tenant_.end() ? 0 : found->second;
  const int64_t queued = std::max<int64_t>(waiting_ - free_slots_, 0),
                own_queued = std::max<int64_t>(own - free_slots_, 0);
  if (own_queued >= std::min(limit_, 2 * limit_ - queued)) {
    return Overloaded(fmt::format("Too many turns are waiting for a slot: {} of yours, {} in all.", own, waiting_));
  }
  ++by_tenant_[tenant];
  ++waiting_;
  return Status::Ok();
}

void QueueShares::Admit(const std::string& tenant) {
  std::lock_guard lock(mutex_);
  RemoveOne(tenant);
  free_slots_ = std::max<int64_t>(free_slots_ - 1, 0);
}

void QueueShares::Requeue(const std::string& tenant) {
  std::lock_guard lock(mutex_);
  ++by_tenant_[tenant];
  ++waiting_;
}

void QueueShares::Leave(const std::string& tenant) {
  std::lock_guard lock(mutex_);
  RemoveOne(tenant);
}

void QueueShares::SetFreeSlots(int64_t slots) {
  std::lock_guard lock(mutex_);
  free_slots_ = slots;
}

void QueueShares::RemoveOne(const std::string& tenant) {
  const auto found = by_tenant_.find(tenant);
  CHECK(found != by_tenant_.end());
  --waiting_;
  if (--found->second == 0) by_tenant_.erase(found);
}

}  // namespace ringside
