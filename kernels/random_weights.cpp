#include "kernels/random_weights.h"

#include "kernels/parallel_for.h"

namespace ringside {

std::vector<float> RandomValues(const RandomMatrix& matrix) {
  const auto cols = static_cast<size_t>(matrix.cols);
  std::vector<float> out(static_cast<size_t>(matrix.row_count()) * cols);
  size_t done = 0;
  for (const RandomMatrix::Rows& run : matrix.rows) {
    const auto count = static_cast<size_t>(run.count);
    ParallelFor(count, [&](size_t begin, size_t end) {
      for (size_t r = begin; r < end; ++r) {
        const int64_t row = run.first + static_cast<int64_t>(r);
        const auto first = static_cast<uint64_t>(row * matrix.whole_cols + matrix.first_col);
        float* to = &out[(done + r) * cols];
        for (size_t c = 0; c < cols; ++c) to[c] = RandomWeight(matrix.seed, first + c);
      }
    });
    done += count;
  }
  return out;
}

}  // namespace ringside
