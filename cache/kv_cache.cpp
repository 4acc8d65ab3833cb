#include "cache/kv_cache.h"

#include <algorithm>

#include "base/check.h"

namespace ringside {

void KvCache::Reset(const RingWindow& window) {
  CHECK_LE(window.pinned, shape_.pinned_capacity());
  ring_ = Ring(window, shape_.ring_rows());
  snapshot_ = 0;
  history_ = nullptr;
  branch_ = 0;
}

void KvCache::BranchOff(const KvCache& history, int64_t tokens) {
  CHECK(shape_ == history.shape_ && history.history_ == nullptr);
  const int64_t pinned = history.ring_.window().pinned;
  CHECK_GE(tokens, pinned);
  ring_ = history.ring_;
  if (tokens < ring_.next()) ring_.RollBack(tokens);
  CHECK_EQ(tokens, ring_.next());
  snapshot_ = 0;
  history_ = history.slab_;
  branch_ = BranchAt(tokens, pinned);
}

bool KvCache::SeesRows(int64_t before) const {
  const int64_t oldest = ring_.FirstLive(ring_.next());
  return oldest < std::min(before, branch_);
}

}  // namespace ringside
