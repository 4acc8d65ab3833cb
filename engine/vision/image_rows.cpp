#include "engine/vision/image_rows.h"

#include <sys/mman.h>

#include <cstdlib>

#include "base/check.h"

namespace ringside {

// Tens of MiB for a large picture: with pages of 4 KiB their first touch would take longer than the tower.
ImageRows::ImageRows(DType dtype, int64_t rows, int64_t columns)
    : rows_(rows), row_bytes_(StorageBytes(dtype, columns)) {
  constexpr size_t kHugePage = size_t{2} << 20;
  const size_t size = (static_cast<size_t>(bytes()) / kHugePage + 1) * kHugePage;
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kHugePage, size)));
  CHECK(memory_ != nullptr);
  (void)madvise(memory_.get(), size, MADV_HUGEPAGE);  // best effort
}

void ImageRows::Freed::operator()(std::byte* memory) const { std::free(memory); }

}  // namespace ringside
