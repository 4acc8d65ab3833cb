// Workspace of a rank's steps on its device. THREAD: the rank's.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "kernels/backend.h"

namespace ringside {

/// A matrix [T, columns], grown to the largest step so far and reused.
struct Scratch {
  int64_t columns = 0;  // 0: unused by this model
  DType dtype = DType::kF32;
  Buffer memory;

  /// The first `rows` rows, with `width` columns unless it is 0. ERRORS: kOverloaded, with the bytes, if it must grow
  /// and the device has no memory.
  Result<Tensor> Rows(Backend& backend, int64_t rows, int64_t width = 0);
};

/// y = x.
void CopyRows(Backend& backend, Tensor x, Tensor y);

}  // namespace ringside
