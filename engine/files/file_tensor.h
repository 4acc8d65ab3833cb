// A tensor of a model's file in any format: its name, its shape and the location of its bytes. Borrowed from its
// reader; plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/tensor.h"

namespace ringside {

struct PackedParts;

struct FileTensor {
  std::string name;
  std::vector<int64_t> shape;  // outermost first, as in [out, in]
  HostTensor data;             // rows = product of all but the last dimension

  // For a tensor in parts (FasterTransformer writes one per GPU), data has no bytes. The whole interleaves the parts:
  // the first stretch of each part in turn, then the second of each, up to `stretches`. With 1 the parts are
  // concatenated; with the number of rows they are side by side.
  std::vector<std::span<const std::byte>> pieces;
  int64_t stretches = 1;
  float scale = 1;  // factor on the values of the parts; float types only

  // If set, data has no bytes either: the blocks are yet to be made (packed_tensors.h).
  std::shared_ptr<const PackedParts> packed;
};

/// The tensor as one: itself, or built in `storage`, which must outlive the result. Scaled values become float32.
FileTensor Whole(const FileTensor& tensor, std::vector<std::byte>* storage);

}  // namespace ringside
