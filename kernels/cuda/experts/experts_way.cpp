// Selects the kernel path of a mixture-of-experts layer.
#include <algorithm>

#include "kernels/cuda/launch.h"

namespace ringside::cuda {

ExpertsWay WayOfExperts(const Launcher& on, const ExpertsPlan& plan, int64_t hidden, int64_t rows) {
  const bool few = rows <= kFewExpertRows;
  const double of_expert = static_cast<double>(rows * plan.experts_per_row) / static_cast<double>(plan.router.cols);
  if (!plan.in_tiles() && !plan.out_tiles()) return few || of_expert <= 2 ? ExpertsWay::kFew : ExpertsWay::kMany;
  const int64_t max_rows = plan.fixed ? std::max(rows, kFewExpertRows) : rows;
  const auto can = [&](ExpertsWay path) { return CanTakeExpertsInTiles(on, plan, path, hidden, max_rows); };
  if ((few || of_expert <= 1.5) && can(ExpertsWay::kIntegers)) return ExpertsWay::kIntegers;
  if (few && can(ExpertsWay::kFew)) return ExpertsWay::kFew;
  return !few && of_expert <= 16 && can(ExpertsWay::kSeveral) ? ExpertsWay::kSeveral : ExpertsWay::kMany;
}

}  // namespace ringside::cuda
