// Stores a step's keys and values, and a reference attention kernel for any head size and element type that the tiled
// kernels (attention_tiled.cuh) do not support.
#include <algorithm>

#include "kernels/cuda/attention/attention_inl.cuh"
#include "kernels/cuda/attention/cache_tile.cuh"
#include "kernels/cuda/launch.cuh"

namespace ringside::cuda {
namespace {

constexpr int kThreads = 128, kWarps = kThreads / 32, kMaxStoreThreads = 640;
constexpr int kUsualHeadDim = 256, kMaxHeadDim = 576;  // a latent of 512 and 64 rotated dimensions

/// Element offsets in a head's tile: dimension d of the key, or of the value, of a lane.
__device__ __forceinline__ int64_t KeyElement(const AttentionPlan& a, int d, int lane) {
  return a.latent != 0 ? static_cast<int64_t>(lane) * a.head_dim + d : static_cast<int64_t>(d) * 16 + lane;
}
__device__ __forceinline__ int64_t ValueElement(const AttentionPlan& a, int d, int lane) {
  return static_cast<int64_t>(a.latent != 0 ? lane : 16 + lane) * a.head_dim + d;
}

// One block per row and head, with a thread per dimension: a row's loads are in flight together.
__global__ void StoreRowsKernel(AttentionPlan a) {
  TriggerProgrammaticLaunch();
  const int row = blockIdx.x, kv_head = blockIdx.y;
  const StagedRow at = a.rows[row];  // staged before the step
  const int lane = LaneOf(at.position, at.pinned);
  char* tile = KeysAt(a, at, at.position, kv_head);
  GridDependencySync();
  WithQkv(a, [&](const auto* x) {
    for (int d = threadIdx.x; d < a.head_dim; d += blockDim.x) {
      StoreCached(tile, a.cache, KeyElement(a, d, lane),
                  RotatedElement(a, x, KeyAt(a, row, kv_head), d, a.own_cos, a.own_sin, row));
      if (a.latent != 0) continue;
      StoreCached(tile, a.cache, ValueElement(a, d, lane), ToFloat(x[ValueAt(a, row, kv_head) + d]));
    }
  });
}

// As StoreRowsKernel, for heads that rotate by halves and fully, or not at all. A block takes 16 rows of one head: the
// first head_dim threads store keys, 8 dimensions and their rotation partners each; the others store values.
// Neighbouring threads take the same dimensions of neighbouring rows, which are mostly adjacent in a tile.
__global__ void StoreRowsWideKernel(AttentionPlan a, int rows) {
  BeginDependentKernel();
  const int i = threadIdx.x, key_threads = a.head_dim, kv_head = blockIdx.y, units = a.head_dim / 8;
  const bool is_key = i < key_threads;
  const int row = blockIdx.x * 16 + (is_key ? i % 16 : (i - key_threads) / units);
  if (row >= rows) return;
  const StagedRow at = a.rows[row];
  const int lane = LaneOf(at.position, at.pinned);
  char* keys = KeysAt(a, at, at.position, kv_head);
  WithQkv(a, [&](const auto* x) {
    if (!is_key) {
      const int d = (i - key_threads) % units * 8;
      const Vec8 value = LoadVec8(x + ValueAt(a, row, kv_head) + d);
      const int64_t to = static_cast<int64_t>(lane) * a.head_dim + d;
      StoreFloat4Cached(keys + a.half_tile_bytes, a.cache, to, float4{value.x[0], value.x[1], value.x[2], value.x[3]});
      StoreFloat4Cached(keys + a.half_tile_bytes, a.cache, to + 4,
                        float4{value.x[4], value.x[5], value.x[6], value.x[7]});
      return;
    }
    const int half = a.head_dim / 2, d = i / 16 * 8;
    Vec8 u = LoadVec8(x + KeyAt(a, row, kv_head) + d), v = LoadVec8(x + KeyAt(a, row, kv_head) + half + d);
    if (a.rotary > 0) {
      const Vec8 cosine = LoadVec8(a.own_cos + static_cast<int64_t>(row) * half + d),
                 sine = LoadVec8(a.own_sin + static_cast<int64_t>(row) * half + d);
#pragma unroll
      for (int e = 0; e < 8; ++e) Rotate(u.x[e], v.x[e], cosine.x[e], sine.x[e]);
    }
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      StoreCached(keys, a.cache, KeyElement(a, d + e, lane), u.x[e]);
      StoreCached(keys, a.cache, KeyElement(a, half + d + e, lane), v.x[e]);
    }
  });
}

// One block per row and head; a warp takes every fourth key, its lanes the dimensions.
template <int kMaxDims>
__global__ void __launch_bounds__(kThreads) ReferenceAttentionKernel(AttentionPlan a) {
  __shared__ float sums[kWarps][kMaxDims * 32], maxima[kWarps], denominators[kWarps];
  BeginDependentKernel();
  const int row = blockIdx.x, head = blockIdx.y, kv_head = head / (a.heads / a.kv_heads);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const StagedRow at = a.rows[row];
  float own[kMaxDims] = {}, pinned[kMaxDims] = {}, out[kMaxDims] = {};
  WithQkv(a, [&](const auto* x) {
    const int64_t from = QueryAt(a, row, head);
    for (int i = 0; i * 32 + lane < a.head_dim; ++i) {
      const float factor = ScoreScale(a, row) * QueryWeight(a, i * 32 + lane);
      own[i] = RotatedElement(a, x, from, i * 32 + lane, a.own_cos, a.own_sin, row) * factor;
      pinned[i] = RotatedElement(a, x, from, i * 32 + lane, a.pinned_cos, a.pinned_sin, row) * factor;
    }
  });
  const int all_pinned = a.seen == VisibleKeys::kRing     ? 0
                         : a.seen == VisibleKeys::kPinned ? at.pinned
                                                          : min(at.pinned, at.last_seen + 1);
  const int first_pinned = min(all_pinned, FirstPinned(a, at)), pinned_keys = all_pinned - first_pinned;
  const bool sees_ring = at.position >= at.pinned && a.seen != VisibleKeys::kPinned;
  const int keys = pinned_keys + (sees_ring ? at.last_seen - at.first_live + 1 : 0);
  const float slope = a.slopes != nullptr ? a.slopes[head] : 0.0f;
  float running_max = -INFINITY, sum = 0;
  if (a.sinks != nullptr && warp == 0) running_max = a.sinks[head], sum = 1;
  for (int i = warp; i < keys; i += kWarps) {
    const bool is_pinned = i < pinned_keys;
    const int key = is_pinned ? first_pinned + i : at.first_live + i - pinned_keys, key_lane = LaneOf(key, at.pinned);
    const char* tile = KeysAt(a, at, key, kv_head);
    float score = 0;
    for (int j = 0; j * 32 + lane < a.head_dim; ++j) {
      score += (is_pinned ? pinned[j] : own[j]) * LoadCached(tile, a.cache, KeyElement(a, j * 32 + lane, key_lane));
    }
    const ScoreModifier modify = {a.soft_cap,        slope,        is_pinned ? at.pinned_at : at.position,
                                  BiasesOf(a, head), a.bias_reach, 1};
    score = modify(SumOverWarp(score), key);
    const float new_max = fmaxf(running_max, score), rescale = expf(running_max - new_max),
                probability = expf(score - new_max);
    running_max = new_max, sum = sum * rescale + probability;
    for (int j = 0; j * 32 + lane < a.value_dim; ++j) {
      const float value = LoadCached(tile, a.cache, ValueElement(a, j * 32 + lane, key_lane));
      out[j] = out[j] * rescale + probability * value;
    }
  }
  if (lane == 0) maxima[warp] = running_max, denominators[warp] = sum;
  for (int j = 0; j * 32 + lane < a.value_dim; ++j) sums[warp][j * 32 + lane] = out[j];
  __syncthreads();
  const float max_score = fmaxf(fmaxf(maxima[0], maxima[1]), fmaxf(maxima[2], maxima[3]));
  float total = 0, rescales[kWarps];
  for (int w = 0; w < kWarps; ++w) {
    rescales[w] = maxima[w] == -INFINITY ? 0 : expf(maxima[w] - max_score);
    total += denominators[w] * rescales[w];
  }
  for (int d = threadIdx.x; d < a.value_dim; d += kThreads) {
    float value = 0;
    for (int w = 0; w < kWarps; ++w) value += sums[w][d] * rescales[w];
    StoreElement(a.out.data, a.out.dtype, row * a.out.stride + static_cast<int64_t>(head) * a.value_dim + d,
                 value / total);
  }
}

}  // namespace

void LaunchStoreRows(const Launcher& on, const AttentionPlan& plan) {
  const bool fits = plan.head_dim % 16 == 0 && plan.head_dim <= kUsualHeadDim;
  if (AllowsVec8(plan, plan.qkv) && fits && plan.latent == 0) {
    return Launch(on, StoreRowsWideKernel, Grid((plan.qkv.rows + 15) / 16, plan.kv_heads),
                  static_cast<int>(3 * plan.head_dim), 0, plan, static_cast<int>(plan.qkv.rows));
  }
  const int threads = std::min(kMaxStoreThreads, (plan.head_dim + 31) / 32 * 32);
  Launch(on, StoreRowsKernel, Grid(plan.qkv.rows, plan.kv_heads), threads, 0, plan);
}

void LaunchReferenceAttention(const Launcher& on, const AttentionPlan& plan) {
  CHECK_LE(plan.head_dim, kMaxHeadDim);
  Launch(on,
         plan.head_dim <= kUsualHeadDim ? ReferenceAttentionKernel<kUsualHeadDim / 32>
                                        : ReferenceAttentionKernel<kMaxHeadDim / 32>,
         Grid(plan.qkv.rows, plan.heads), kThreads, 0, plan);
}

}  // namespace ringside::cuda
