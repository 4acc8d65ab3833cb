#include "cache/kv_cache.h"

#include "base/check.h"

namespace ringside {

void KvCache::Reset(const RingWindow& window) {
  CHECK_LE(window.pinned, shape_.pinned_capacity());
  ring_ = Ring(window, shape_.ring_rows());
  snapshot_ = 0;
}

}  // namespace ringside
