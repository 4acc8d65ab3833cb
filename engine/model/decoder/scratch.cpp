#include "engine/model/decoder/scratch.h"

#include <numeric>
#include <vector>

namespace ringside {

Result<Tensor> Scratch::Rows(Backend& backend, int64_t rows, int64_t width) {
  const auto bytes = static_cast<size_t>(StorageBytes(dtype, rows * columns));
  if (memory.bytes() < bytes) {
    memory = Buffer();  // free first: both at once might not fit
    ASSIGN_OR_RETURN(memory, backend.Allocate(bytes));
  }
  if (width == 0) width = columns;
  return Tensor{dtype, memory.data(), rows, width, width};
}

void CopyRows(Backend& backend, Tensor x, Tensor y) {
  std::vector<int64_t> rows(static_cast<size_t>(x.rows));
  std::iota(rows.begin(), rows.end(), int64_t{0});
  backend.GatherRows(x, rows, y);
}

}  // namespace ringside
