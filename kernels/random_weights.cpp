#include "kernels/random_weights.h"

#include <cstring>

#include "base/parallel_for.h"
#include "kernels/formats/half.h"
#include "kernels/formats/row_quantization.h"

namespace ringside {
namespace {

/// Calls make(row of the whole matrix, row of the part) for all rows of the part, on several threads.
template <class Make>
void ForRows(const RandomMatrix& matrix, const Make& make) {
  size_t done = 0;
  for (const RandomMatrix::Rows& run : matrix.rows) {
    const auto count = static_cast<size_t>(run.count);
    ParallelFor(count, [&](size_t begin, size_t end) {
      for (size_t r = begin; r < end; ++r) make(run.first + static_cast<int64_t>(r), done + r);
    });
    done += count;
  }
}

/// The scale of elements of 128 x 128 in a row: adjacent ones differ, and all fit the largest value.
float ScaleOfBlock(int64_t row, int64_t col) {
  constexpr float kLargest = 3.5f * kRandomDeviation;
  return kLargest / kLargestE4M3 * (1 + 0.25f * static_cast<float>((row / 128 + col / 128) % 4));
}

}  // namespace

std::vector<float> RandomValues(const RandomMatrix& matrix) {
  const auto cols = static_cast<size_t>(matrix.cols);
  std::vector<float> out(static_cast<size_t>(matrix.row_count()) * cols);
  ForRows(matrix, [&](int64_t row, size_t r) {
    const auto first = static_cast<uint64_t>(row * matrix.whole_cols + matrix.first_col);
    for (size_t c = 0; c < cols; ++c) out[r * cols + c] = RandomWeight(matrix.seed, first + c);
  });
  return out;
}

std::vector<std::byte> RandomE4M3Blocks(const RandomMatrix& matrix) {
  constexpr DType kType = DType::kScaledE4M3;
  const auto block_bytes = static_cast<size_t>(Traits(kType).block_bytes);
  std::vector<std::byte> out(static_cast<size_t>(StorageBytes(kType, matrix.row_count() * matrix.cols)));
  ForRows(matrix, [&](int64_t row, size_t r) {
    const int64_t end = matrix.first_col + matrix.cols;
    std::byte* to = out.data() + r * static_cast<size_t>(StorageBytes(kType, matrix.cols));
    for (int64_t col = matrix.first_col; col < end; col += Traits(kType).block_elements, to += block_bytes) {
      const float scale = ScaleOfBlock(row, col), inverse = 1 / scale;
      std::memcpy(to, &scale, sizeof(scale));
      for (size_t i = 0; i < block_bytes - sizeof(scale); ++i) {
        const auto number = static_cast<uint64_t>(row * matrix.whole_cols + col) + i;
        to[sizeof(scale) + i] = static_cast<std::byte>(FloatToE4M3(RandomWeight(matrix.seed, number) * inverse));
      }
    }
  });
  return out;
}

}  // namespace ringside
