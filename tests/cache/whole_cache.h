// Caches with memory for their whole window. Any test.
#pragma once

#include "cache/kv_pool.h"

namespace ringside {

/// An empty cache, or null if the pool lacks a slot or the memory.
inline KvCache* LendWhole(KvPool& pool, const RingWindow& window) {
  KvCache* cache = pool.Lend(window);
  if (cache == nullptr) return nullptr;
  if (pool.Grow(cache, pool.BytesFor(window, window.pinned + pool.shape().ring_rows())).ok()) return cache;
  pool.Release(cache);
  return nullptr;
}

}  // namespace ringside
