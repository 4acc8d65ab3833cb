// A fixed number of slabs of device memory, made at start. Each is one slot: the cache of one conversation. Engine
// thread only.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "cache/kv_cache.h"
#include "kernels/tensor.h"

namespace ringside {

class Backend;

class KvPool {
 public:
  /// Takes `slots` slabs of the shape from the backend; kOverloaded, naming the bytes, if they do not fit.
  static Result<KvPool> Make(Backend& backend, const KvShape& shape, int64_t slots);

  const KvShape& shape() const { return shape_; }
  int64_t slots() const { return static_cast<int64_t>(caches_.size()); }
  int64_t used() const { return slots() - static_cast<int64_t>(free_.size()); }

  /// An empty cache with this window, or null if every slot is lent. The cache is the caller's until Release.
  KvCache* Acquire(const RingWindow& window);
  void Release(KvCache* cache);

 private:
  KvShape shape_;
  std::vector<Buffer> slabs_;
  std::vector<std::unique_ptr<KvCache>> caches_;
  std::vector<KvCache*> free_;
};

/// The shape whose ring takes any chunk up to `chunk` tokens, also behind a full window of `memory_len`: R is at least
/// memory_len + chunk - 1.
KvShape MakeKvShape(int64_t layers, int64_t kv_heads, int64_t head_dim, DType dtype, int64_t pinned_max,
                    int64_t memory_len, int64_t chunk);

}  // namespace ringside
