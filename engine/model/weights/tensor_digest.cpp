#include "engine/model/weights/tensor_digest.h"

#include <fmt/format.h>

#include <future>

#include "engine/model/weights/finite_values.h"

namespace ringside {

// Every process reads the whole file once for the digest, while another thread checks the values: each is as fast as
// one core reads memory.
Status DigestTensor(const FileTensor& tensor, Digest* digest) {
  std::future<bool> finite = std::async(std::launch::async, AreFinite, tensor.data.dtype, tensor.data.bytes);
  digest->AddText(tensor.name);
  digest->AddNumber(static_cast<int64_t>(tensor.data.dtype));
  digest->AddNumber(static_cast<int64_t>(tensor.shape.size()));
  for (const int64_t size : tensor.shape) digest->AddNumber(size);
  digest->AddBytes(tensor.data.bytes.data(), tensor.data.bytes.size());
  digest->AddBytes(reinterpret_cast<const std::byte*>(tensor.data.order.data()), tensor.data.order.size_bytes());
  if (finite.get()) return Status::Ok();
  return Corruption(fmt::format("tensor '{}' holds a value that is not finite", tensor.name));
}

}  // namespace ringside
