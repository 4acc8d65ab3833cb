// Weights that are made up: for measuring networks whose weights are not to be had. Each value is a function of the
// matrix's seed and of the element's number in the whole matrix alone, the same on every device (but for the rounding
// to its type) and for every rank that has a part of it. Plain functions, any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "base/philox.h"
#include "kernels/tensor.h"

namespace ringside {

/// Some rows and columns of a whole matrix.
struct RandomMatrix {
  struct Rows {
    int64_t first = 0, count = 0;
  };
  uint64_t seed = 0;
  int64_t whole_cols = 0;  // of the whole matrix: element (r, c) has number r * whole_cols + c there
  std::vector<Rows> rows;  // one behind the other
  int64_t first_col = 0, cols = 0;
  bool table = false;  // as HostTensor's

  int64_t row_count() const {
    int64_t count = 0;
    for (const Rows& run : rows) count += run.count;
    return count;
  }
};

/// What transformers initialises networks with.
constexpr float kRandomDeviation = 0.02f;

/// Element `number` of the matrix: nearly normal with mean 0 and kRandomDeviation, never 0, at most 3.5 deviations. The
/// sum of four random bytes, less its mean.
constexpr float RandomWeight(uint64_t seed, uint64_t number) {
  constexpr float kDeviation = 147.801f;  // sqrt(4 (256^2 - 1) / 12)
  const std::array<uint32_t, 4> words =
      Philox4x32({static_cast<uint32_t>(number >> 2), static_cast<uint32_t>(number >> 34), 0, 0},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const uint32_t word = words[number & 3];
  const auto sum = static_cast<int32_t>((word & 255) + (word >> 8 & 255) + (word >> 16 & 255) + (word >> 24)) - 510;
  return (sum == 0 ? 0.5f : static_cast<float>(sum)) * (kRandomDeviation / kDeviation);
}

/// All of it on the host, float32, one row behind the other.
std::vector<float> RandomValues(const RandomMatrix& matrix);

}  // namespace ringside
