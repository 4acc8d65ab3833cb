#include "kernels/random_weights.h"

namespace ringside {

std::vector<float> RandomValues(const RandomMatrix& matrix) {
  std::vector<float> out;
  out.reserve(static_cast<size_t>(matrix.row_count() * matrix.cols));
  for (const RandomMatrix::Rows& run : matrix.rows) {
    for (int64_t row = run.first; row < run.first + run.count; ++row) {
      const auto first = static_cast<uint64_t>(row * matrix.whole_cols + matrix.first_col);
      for (int64_t c = 0; c < matrix.cols; ++c) {
        out.push_back(RandomWeight(matrix.seed, first + static_cast<uint64_t>(c)));
      }
    }
  }
  return out;
}

}  // namespace ringside
