#include "engine/model/weights/tensor_digest.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/model/weights/finite_values.h"
#include "kernels/tensor.h"

namespace ringside {

// Every process reads the whole file once for the digest. The values are checked in the same pass, a chunk at a time
// while it is in the CPU cache.
Status DigestTensor(const FileTensor& tensor, Digest* digest) {
  digest->AddText(tensor.name);
  digest->AddNumber(static_cast<int64_t>(tensor.data.dtype));
  digest->AddNumber(static_cast<int64_t>(tensor.shape.size()));
  for (const int64_t size : tensor.shape) digest->AddNumber(size);
  constexpr size_t kPiece = 128 << 10;
  const auto block = static_cast<size_t>(Traits(tensor.data.dtype).block_bytes);
  for (std::span<const std::byte> rest = tensor.data.bytes; !rest.empty();) {
    const auto piece = rest.first(std::min(rest.size(), kPiece / block * block));
    rest = rest.subspan(piece.size());
    digest->AddBytes(piece.data(), piece.size());
    if (!AreFinite(tensor.data.dtype, piece)) {
      return Corruption(fmt::format("tensor '{}' holds a value that is not finite", tensor.name));
    }
  }
  digest->AddBytes(reinterpret_cast<const std::byte*>(tensor.data.order.data()), tensor.data.order.size_bytes());
  return Status::Ok();
}

}  // namespace ringside
