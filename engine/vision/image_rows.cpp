#include "engine/vision/image_rows.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "base/check.h"

namespace ringside {

// Tens of MiB for a large picture: with pages of 4 KiB their first touch would take longer than the tower. Whole huge
// pages only, because a page that is used in part is in memory as a whole.
ImageRows::ImageRows(DType dtype, int64_t rows, int64_t columns)
    : rows_(rows), row_bytes_(StorageBytes(dtype, columns)) {
  constexpr size_t kHugePage = size_t{2} << 20;
  const auto size = static_cast<size_t>(bytes());
  const bool large = size >= kHugePage;
  void* memory = nullptr;
  CHECK_EQ(posix_memalign(&memory, large ? kHugePage : alignof(std::max_align_t), std::max<size_t>(size, 1)), 0);
  memory_.reset(static_cast<std::byte*>(memory));
  if (large) (void)madvise(memory, size / kHugePage * kHugePage, MADV_HUGEPAGE);  // best effort
}

void ImageRows::Freed::operator()(std::byte* memory) const { std::free(memory); }

}  // namespace ringside
