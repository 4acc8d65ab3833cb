// The output of a vision tower for one picture: the embeddings of its tokens, markers excluded, in the backend's
// activation type. In host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/tensor.h"

namespace ringside {

class ImageRows {
 public:
  /// `rows` rows of unspecified values. `columns`: the hidden size of the text network, times 1 +
  /// ModelSpec::image_layers.
  ImageRows(DType dtype, int64_t rows, int64_t columns);

  int64_t rows() const { return rows_; }
  int64_t row_bytes() const { return row_bytes_; }
  int64_t bytes() const { return rows_ * row_bytes_; }
  std::byte* Row(int64_t row) { return memory_.get() + row * row_bytes_; }
  const std::byte* Row(int64_t row) const { return memory_.get() + row * row_bytes_; }

 private:
  struct Freed {
    void operator()(std::byte* memory) const;
  };

  int64_t rows_ = 0, row_bytes_ = 0;
  std::unique_ptr<std::byte[], Freed> memory_;
};

}  // namespace ringside
