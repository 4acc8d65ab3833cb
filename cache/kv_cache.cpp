#include "cache/kv_cache.h"

#include "base/check.h"

namespace ringside {

void KvCache::Reset(const RingWindow& window) {
  CHECK_LE(window.pinned, shape_.pinned_capacity());
  ring_ = Ring(window, shape_.ring_rows());
  snapshot_ = 0;
  history_ = nullptr;
  branch_ = 0;
}

void KvCache::BranchOff(const KvCache& history) {
  CHECK(shape_ == history.shape_ && history.history_ == nullptr);
  const int64_t pinned = history.ring_.window().pinned, next = history.ring_.next();
  CHECK_GE(next, pinned);
  ring_ = history.ring_;
  snapshot_ = 0;
  history_ = history.slab_;
  branch_ = next - (next - pinned) % KvShape::kTile;
}

}  // namespace ringside
