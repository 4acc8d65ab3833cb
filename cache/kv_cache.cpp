#include "cache/kv_cache.h"

#include <algorithm>

#include "base/check.h"

namespace ringside {

void KvCache::Reset(const RingWindow& window) {
  CHECK_LE(window.pinned, shape_.pinned_capacity());
  ring_ = Ring(window, shape_.ring_rows());
}

void KvCache::CopyFrom(const KvCache& other, Backend& backend) {
  CHECK(shape_ == other.shape_);
  ring_ = other.ring_;
  const int64_t ring_used = std::min(ring_.next() - ring_.window().pinned, shape_.ring_rows());
  const int64_t used_tiles =
      ring_used <= 0 ? shape_.pinned_tiles : shape_.pinned_tiles + (ring_used + KvShape::kTile - 1) / KvShape::kTile;
  const auto bytes = static_cast<size_t>(used_tiles * shape_.tile_bytes());
  for (int64_t layer = 0; layer < shape_.layers; ++layer) {
    const int64_t offset = layer * shape_.layer_bytes();
    backend.CopyOnDevice(static_cast<std::byte*>(slab_) + offset, static_cast<const std::byte*>(other.slab_) + offset,
                         bytes);
  }
}

}  // namespace ringside
