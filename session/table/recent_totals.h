// Sums over an owner's sessions in a shared store, at most some seconds old. The sessions that this server has created
// since are added. Owned by a table. THREAD: any; blocks on the database.
#pragma once

#include <mutex>
#include <string>
#include <unordered_map>

#include "base/clock.h"
#include "session/journal/shared_log.h"

namespace ringside {

class RecentTotals {
 public:
  RecentTotals(SharedLog* log, const Clock& clock) : log_(log), clock_(clock) {}

  /// ERRORS: as SharedLog::Totals.
  Result<SharedTotals> Of(const std::string& owner);
  void CountNew(const std::string& owner, bool conversation);

 private:
  struct Known {
    SharedTotals totals;
    int64_t read_ns = 0;
  };
  static constexpr int64_t kMaxAgeNs = 5'000'000'000;
  static constexpr size_t kMaxOwners = 10'000;

  SharedLog* const log_;
  const Clock& clock_;
  std::mutex mutex_;
  std::unordered_map<std::string, Known> owners_;
};

}  // namespace ringside
