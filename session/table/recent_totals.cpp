#include "session/table/recent_totals.h"

namespace ringside {

Result<SharedTotals> RecentTotals::Of(const std::string& owner) {
  const int64_t now_ns = clock_.MonotonicNs();
  {
    std::lock_guard lock(mutex_);
    const auto at = owners_.find(owner);
    if (at != owners_.end() && now_ns - at->second.read_ns < kMaxAgeNs) return at->second.totals;
  }
  ASSIGN_OR_RETURN(const SharedTotals totals, log_->Totals(owner));
  std::lock_guard lock(mutex_);
  if (owners_.size() >= kMaxOwners) owners_.clear();
  owners_.insert_or_assign(owner, Known{totals, now_ns});
  return totals;
}

void RecentTotals::CountNew(const std::string& owner, bool conversation) {
  std::lock_guard lock(mutex_);
  const auto at = owners_.find(owner);
  if (at == owners_.end()) return;
  ++(conversation ? at->second.totals.conversations : at->second.totals.chains);
}

}  // namespace ringside
