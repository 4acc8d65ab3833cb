#include "cache/kv_pool.h"

#include "base/check.h"
#include "base/defect.h"
#include "kernels/backend.h"

namespace ringside {

Result<KvPool> KvPool::Make(Backend& backend, const KvShape& shape, int64_t slots) {
  KvPool pool;
  pool.shape_ = shape;
  for (int64_t i = 0; i < slots; ++i) {
    ASSIGN_OR_RETURN(Buffer slab, backend.Allocate(static_cast<size_t>(shape.slab_bytes())));
    pool.caches_.push_back(std::make_unique<KvCache>(shape, slab.data()));
    pool.slabs_.push_back(std::move(slab));
  }
  for (auto cache = pool.caches_.rbegin(); cache != pool.caches_.rend(); ++cache) pool.free_.push_back(cache->get());
  return pool;
}

KvCache* KvPool::Acquire(const RingWindow& window) {
  if (free_.empty()) return nullptr;
  KvCache* cache = free_.back();
  free_.pop_back();
  if (!RINGSIDE_DEFECT("slot_not_reset")) cache->Reset(window);
  return cache;
}

void KvPool::Release(KvCache* cache) {
  CHECK(cache != nullptr);
  free_.push_back(cache);
}

KvShape MakeKvShape(int64_t layers, int64_t kv_heads, int64_t head_dim, DType dtype, int64_t pinned_max,
                    int64_t memory_len, int64_t chunk) {
  const auto tiles = [](int64_t rows) { return (rows + KvShape::kTile - 1) / KvShape::kTile; };
  return {layers, kv_heads, head_dim, dtype, tiles(pinned_max), tiles(memory_len + chunk - 1)};
}

}  // namespace ringside
