// Random weights, for benchmarking networks whose weights are not available. Each value is a function of the matrix's
// seed and of the element's index in the whole matrix, so it is the same on every device (except for rounding to its
// type) and for every rank that has a part of the matrix.
// THREAD: any.
#pragma once

#include <cstddef>
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
  int64_t whole_cols = 0;  // columns of the whole matrix: element (r, c) has index r * whole_cols + c
  std::vector<Rows> rows;  // concatenated
  int64_t first_col = 0, cols = 0;
  bool table = false;        // as in HostTensor
  bool expert = false;       // as in HostTensor
  DType file = DType::kF32;  // kScaledE4M3: see in_e4m3

  /// Whether values are rounded to E4M3, with a scale per 128 x 128 elements of the whole matrix. Tables are not.
  bool in_e4m3() const { return file == DType::kScaledE4M3 && !table && first_col % 32 == 0 && cols % 32 == 0; }
  int64_t row_count() const {
    int64_t count = 0;
    for (const Rows& run : rows) count += run.count;
    return count;
  }
};

/// The initialization of transformers.
constexpr float kRandomDeviation = 0.02f;

/// Element `number` of the matrix: approximately normal with mean 0 and kRandomDeviation, never 0, at most 3.5
/// deviations. The sum of four random bytes minus its mean.
constexpr float RandomWeight(uint64_t seed, uint64_t number) {
  constexpr float kDeviation = 147.801f;  // sqrt(4 (256^2 - 1) / 12)
  const std::array<uint32_t, 4> words =
      Philox4x32({static_cast<uint32_t>(number >> 2), static_cast<uint32_t>(number >> 34), 0, 0},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const uint32_t word = words[number & 3];
  const auto sum = static_cast<int32_t>((word & 255) + (word >> 8 & 255) + (word >> 16 & 255) + (word >> 24)) - 510;
  return (sum == 0 ? 0.5f : static_cast<float>(sum)) * (kRandomDeviation / kDeviation);
}

/// All values on the host in float32, row-major, not rounded to E4M3.
std::vector<float> RandomValues(const RandomMatrix& matrix);
/// The values as kScaledE4M3. REQUIRES: first_col and cols are multiples of 32.
std::vector<std::byte> RandomE4M3Blocks(const RandomMatrix& matrix);

}  // namespace ringside
