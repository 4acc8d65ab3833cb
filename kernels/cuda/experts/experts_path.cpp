// Selects the kernel path of a mixture-of-experts layer.
#include <algorithm>

#include "kernels/cuda/launch.h"

namespace ringside::cuda {

ExpertsPath SelectExpertsPath(const Launcher& on, const ExpertsPlan& plan, int64_t hidden, int64_t rows) {
  const bool few = rows <= kFewExpertRows;
  const double of_expert = static_cast<double>(rows * plan.experts_per_row) / static_cast<double>(plan.router.cols);
  if (!plan.in_tiles() && !plan.out_tiles()) return few || of_expert <= 2 ? ExpertsPath::kFew : ExpertsPath::kMany;
  const int64_t max_rows = plan.fixed ? std::max(rows, kFewExpertRows) : rows;
  const auto can = [&](ExpertsPath path) { return SupportsTiledExperts(on, plan, path, hidden, max_rows); };
  if ((few || of_expert <= 1.5) && can(ExpertsPath::kIntegers)) return ExpertsPath::kIntegers;
  if (few && can(ExpertsPath::kFew)) return ExpertsPath::kFew;
  return !few && of_expert <= 16 && can(ExpertsPath::kSeveral) ? ExpertsPath::kSeveral : ExpertsPath::kMany;
}

}  // namespace ringside::cuda
