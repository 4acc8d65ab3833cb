// A tensor of a model's file, whatever the format: its name, its shape and where its bytes are. Borrowed from the
// reader that made it; plain data.
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

  // Of a tensor that lies in pieces (FasterTransformer writes one for each GPU), data has no bytes. The whole takes the
  // first stretch of each piece in turn, then the second of each, until all `stretches` are taken: 1 puts the pieces
  // one behind the other, the number of rows puts them side by side.
  std::vector<std::span<const std::byte>> pieces;
  int64_t stretches = 1;
  float scale = 1;  // what the values in the pieces are to be multiplied by; float types only

  // Nor has data of a tensor whose blocks are yet to be made (packed_tensors.h).
  std::shared_ptr<const PackedParts> packed;
};

/// The tensor in one piece: itself, or made in `storage`, which must outlive what is returned. Values that are scaled
/// become float32.
FileTensor Whole(const FileTensor& tensor, std::vector<std::byte>* storage);

}  // namespace ringside
