// Device memory of the tokens that a submission samples, which Embed of the next submission reads. Owned by the
// backend. THREAD: one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "kernels/tensor.h"

namespace ringside::cuda {

class SampledTokens {
 public:
  static constexpr int64_t kMaxRows = 65536;  // per submission

  /// `ids` has room for kMaxRows and is borrowed.
  void Start(void* ids) { ids_ = static_cast<int32_t*>(ids); }
  int32_t* ids() const { return ids_; }
  /// Memory for the next `rows` tokens of a submission (StepRecorder::submission_epoch).
  int32_t* Next(uint64_t epoch, int64_t rows) {
    if (epoch_ != epoch) epoch_ = epoch, rows_ = 0;
    CHECK_LE(rows_ + rows, kMaxRows);
    int32_t* out = ids_ + rows_;
    rows_ += rows;
    return out;
  }
  /// The first ids as a one-column matrix of 4-byte elements, whatever their type.
  Tensor AsColumn(size_t count) const {
    CHECK_LE(count, static_cast<size_t>(kMaxRows));
    return {DType::kF32, ids_, static_cast<int64_t>(count), 1, 1};
  }

 private:
  int32_t* ids_ = nullptr;
  uint64_t epoch_ = 0;  // of rows_
  int64_t rows_ = 0;    // sampled in that submission
};

}  // namespace ringside::cuda
