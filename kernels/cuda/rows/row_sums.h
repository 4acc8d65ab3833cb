// Sums of rows in one launch: y_i += sum of f_ij x_ij, row by row (row_ops.cu). Plain data.
#pragma once

#include <cstdint>

#include "kernels/tensor.h"

namespace ringside::cuda {

struct Launcher;

/// A matrix of the size of y, times a factor of each row.
struct SumTerm {
  Tensor x;
  Tensor factors;  // [T, 1]; data is null: 1
};

struct RowSums {
  static constexpr int kMaxSums = 4, kMaxTerms = 4;

  struct Sum {
    Tensor y;  // kF32
    SumTerm terms[kMaxTerms];
    int32_t count = 0;  // of terms
  };
  Sum sums[kMaxSums];
  int32_t count = 0;  // of sums
};

/// REQUIRES: all y have the same size; no y shares memory with another, or with an x.
void LaunchRowSums(const Launcher& on, const RowSums& sums);

}  // namespace ringside::cuda
