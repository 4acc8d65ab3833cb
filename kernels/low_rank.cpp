// Fallback for backends without a LoRA operation: runs of consecutive rows with one adapter go through Linear, so that
// a row's sums do not depend on its neighbours.
#include "kernels/low_rank.h"

#include <vector>

#include "base/check.h"
#include "kernels/backend.h"

namespace ringside {
namespace {

/// Multiplies by all A matrices at once, then adds each B to its outputs. `low` has the row count of x.
void AddMatrices(Backend& backend, Tensor x, std::span<const LowRank> matrices, Tensor low, Tensor y) {
  std::vector<const Weight*> narrow;
  int64_t ranks = 0;
  for (const LowRank& matrix : matrices) narrow.push_back(&matrix.a), ranks += matrix.a.rows;
  backend.Linear({.x = x, .weights = narrow, .y = low.Columns(0, ranks)});
  int64_t first = 0;
  for (const LowRank& matrix : matrices) {
    const Weight* wide[] = {&matrix.b};
    backend.Linear({.x = low.Columns(first, matrix.a.rows),
                    .weights = wide,
                    .y = y.Columns(matrix.first_output, matrix.b.rows),
                    .accumulate = true});
    first += matrix.a.rows;
  }
}

}  // namespace

void Backend::AddLowRank(const LowRankArgs& args) {
  CHECK_EQ(std::ssize(args.adapters), args.x.rows);
  for (int64_t first = 0, end = 0; first < args.x.rows; first = end) {
    const int adapter = args.adapters[static_cast<size_t>(first)];
    while (end < args.x.rows && args.adapters[static_cast<size_t>(end)] == adapter) ++end;
    if (adapter == 0) continue;
    CHECK_LE(static_cast<size_t>(adapter), args.matrices.size());
    const std::span<const LowRank> matrices = args.matrices[static_cast<size_t>(adapter - 1)];
    if (matrices.empty()) continue;
    const int64_t rows = end - first;
    AddMatrices(*this, args.x.Rows(first, rows), matrices, args.low.Rows(first, rows), args.y.Rows(first, rows));
  }
}

}  // namespace ringside
