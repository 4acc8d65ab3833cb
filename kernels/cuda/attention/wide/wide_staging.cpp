#include "kernels/cuda/attention/wide/wide_staging.h"

#include "base/check.h"
#include "kernels/cuda/attention/attention_staging.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/tensor_map.h"

namespace ringside::cuda {
bool AllowsWideAttention(const DeviceTraits& on, const AttentionArgs& args, const AttentionPlan& sizes) {
  const auto allows_vectors = [](const Tensor& x) {
    return x.dtype != DType::kF32 && x.stride % 8 == 0 && reinterpret_cast<uintptr_t>(x.data) % 16 == 0;
  };
  const KvShape& shape = args.shape;
  const ScoreTraits& scores = args.scores;
  const bool plain = scores.soft_cap <= 0 && scores.slopes == nullptr && scores.sinks == nullptr &&
                     scores.biases == nullptr && scores.window == 0 && args.query_weights == nullptr;
  return on.wgmma && plain && args.seen == VisibleKeys::kBefore && args.heads > 0 && args.qkv.dtype == args.out.dtype &&
         allows_vectors(args.qkv) && allows_vectors(args.out) && shape.tile_bytes() % kWideUnitBytes == 0 &&
         shape.TileOffset(args.layer, 0, 0) % kWideUnitBytes == 0 && WideAttentionQueries(sizes) > 0;
}

void CheckWideSlabs(const AttentionArgs& args, const DeviceMemory::Range& range) {
  CHECK_LE(static_cast<int64_t>(range.bytes) / kWideUnitBytes * kWideUnitBoxes, int64_t{INT32_MAX});
  for (const AttentionSegment& s : args.segments) {
    for (const void* slab : {HistoryOf(s), static_cast<const void*>(s.slab)}) {
      const auto* at = static_cast<const std::byte*>(slab);
      CHECK(at >= range.begin && at < range.begin + range.bytes);
      CHECK_EQ((at - range.begin) % kWideUnitBytes, 0);
    }
  }
}

}  // namespace ringside::cuda
