#include "engine/scheduler.h"

#include <algorithm>

namespace ringside {

std::vector<int64_t> PlanStep(std::span<const int64_t> remaining, const SchedulerLimits& limits, size_t first) {
  std::vector<int64_t> take(remaining.size(), 0);
  std::vector<size_t> prefills;
  bool decodes = false;
  for (size_t i = 0; i < remaining.size(); ++i) {
    const size_t turn = (first + i) % remaining.size();
    if (remaining[turn] == 1) {
      take[turn] = 1;
      decodes = true;
    } else if (remaining[turn] > 1) {
      prefills.push_back(turn);
    }
  }
  int64_t budget = decodes ? limits.mixed_tokens : limits.step_tokens;
  for (auto left = static_cast<int64_t>(prefills.size()); left > 0 && budget > 0;) {
    const int64_t share = std::max<int64_t>(1, budget / left);
    left = 0;
    for (const size_t turn : prefills) {
      const int64_t room = std::min(remaining[turn], limits.prefill_chunk) - take[turn];
      const int64_t rows = std::min({room, share, budget});
      take[turn] += rows;
      budget -= rows;
      if (room > rows) ++left;
    }
  }
  return take;
}

}  // namespace ringside
