#include "kernels/tensor.h"

#include "base/check.h"
#include "kernels/backend.h"

namespace ringside {

std::span<const DTypeTraits> AllTraits() {
  static constexpr DTypeTraits kTraits[] = {
#define DTYPE(enumerator, name, elements, bytes, gguf, first, second, form) \
  {name, elements, bytes, gguf, {first, second}, DType::form},
#include "kernels/dtypes.def"
#undef DTYPE
  };
  return kTraits;
}

Buffer::~Buffer() {
  if (data_ != nullptr) owner_->Free(data_, bytes_);
}

}  // namespace ringside
