// Launches attention with wide heads (attention_wide.cuh) and reduces its splits. A block reduces 128 dimensions of
// one query: each warp every eighth split, in order, then the warps in order. If tiles have few splits, each warp
// reduces 128 dimensions of one query instead. With a fixed order a split's warp depends
// on the position of its keys alone, and splits in which a row sees no key are skipped.
#include <algorithm>

#include "kernels/cuda/attention/wide/wide_splits.cuh"
#include "kernels/cuda/launch.cuh"

namespace ringside::cuda {

void LaunchWideF16(const Launcher& on, const AttentionPlan& plan, int first, int64_t count);   // attention_wide_f16.cu
void LaunchWideBf16(const Launcher& on, const AttentionPlan& plan, int first, int64_t count);  // attention_wide_bf16.cu
void LaunchWideF8(const Launcher& on, const AttentionPlan& plan, int first, int64_t count);    // attention_wide_f8.cu

namespace {

constexpr int kWarps = kBlockThreads / 32, kDims = 128;  // dimensions of a block, or of a warp
constexpr int kFewSplits = 8;

/// A query's sum of some splits.
struct SplitsSum {
  float4 sum = {0, 0, 0, 0};
  float total = 0;  // of probabilities
};

/// Adds every kStep-th split from `first` on. `sums` and `stats` are those of split 0.
template <int kStep>
__device__ __forceinline__ void AddSplits(const float* sums, const float* stats, int64_t stride, int first, int end,
                                          float max_score, SplitsSum* out) {
  constexpr int kAtATime = 8;  // splits whose loads are in flight together
  for (int begin = first; begin < end; begin += kStep * kAtATime) {
    float4 v[kAtATime];
    float2 own[kAtATime];
#pragma unroll
    for (int i = 0; i < kAtATime; ++i) {
      const int p = begin + i * kStep;
      own[i] = p < end ? *reinterpret_cast<const float2*>(stats + p * stride) : float2{-INFINITY, 0};
      v[i] = own[i].x > -INFINITY ? *reinterpret_cast<const float4*>(sums + p * stride) : float4{0, 0, 0, 0};
    }
#pragma unroll
    for (int i = 0; i < kAtATime; ++i) {
      if (!(own[i].x > -INFINITY)) continue;
      const float factor = RescaleFactor(max_score, own[i].x);
      out->total += own[i].y * factor;
      out->sum.x += v[i].x * factor, out->sum.y += v[i].y * factor;
      out->sum.z += v[i].z * factor, out->sum.w += v[i].w * factor;
    }
  }
}

/// Blocks: [query and 128 dimensions, head tile, tile from `first_tile` on].
template <int kValues>
__global__ void __launch_bounds__(kBlockThreads) ReduceWideKernel(AttentionPlan a, int first_tile) {
  __shared__ float sums[kWarps][kDims], totals[kWarps], maxima[kWarps];
  TriggerProgrammaticLaunch();
  constexpr int kSlices = kValues / kDims;
  const int m = blockIdx.x / kSlices, d = blockIdx.x % kSlices * kDims, warp = threadIdx.x / 32,
            lane = threadIdx.x % 32;
  const int t = first_tile + static_cast<int>(blockIdx.z);
  const StagedTile tile = a.tiles[t];  // staged before the step, as the splits are
  const int listed = a.wide_splits == nullptr ? 0 : ListedSplits(a, t);
  GridDependencySync();  // also if no block of the grid has work
  if (m >= tile.rows * a.tile_heads) return;
  int pinned = 0, first_ring = 0, count = 0;
  if (a.wide_splits == nullptr) {
    const FixedSplits splits(a, tile, WideUnits(tile));
    pinned = splits.pinned, first_ring = splits.first_ring, count = splits.count;
  } else {
    count = listed;
    if (count == 1) return;  // its block has stored the results
  }
  const WidePartials<kValues> partials(a, t, blockIdx.z, blockIdx.y, gridDim.y);
  const float* stats = partials.first + kWideQueries * kValues + 2 * m;
  float max_score = -INFINITY;
  for (int p = threadIdx.x; p < count; p += kBlockThreads) max_score = fmaxf(max_score, stats[p * partials.stride]);
  for (int step = 16; step > 0; step /= 2) max_score = fmaxf(max_score, __shfl_xor_sync(0xffffffffu, max_score, step));
  if (lane == 0) maxima[warp] = max_score;
  __syncthreads();
#pragma unroll
  for (int w = 0; w < kWarps; ++w) max_score = fmaxf(max_score, maxima[w]);
  SplitsSum own;
  const float* values = partials.first + m * kValues + d + lane * 4;
  AddSplits<kWarps>(values, stats, partials.stride, warp, pinned, max_score, &own);
  const int first = pinned + (warp + kWarps - first_ring % kWarps) % kWarps;
  AddSplits<kWarps>(values, stats, partials.stride, first, count, max_score, &own);
  *reinterpret_cast<float4*>(sums[warp] + lane * 4) = own.sum;
  if (lane == 0) totals[warp] = own.total;
  __syncthreads();
  if (threadIdx.x >= kDims) return;
  float sum = 0, total = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) sum += sums[w][threadIdx.x], total += totals[w];
  const int row = RowOfQuery(a, m), head = static_cast<int>(blockIdx.y) * a.tile_heads + m - row * a.tile_heads;
  StoreElement(
      a.out.data, a.out.dtype,
      static_cast<int64_t>(tile.row + row) * a.out.stride + static_cast<int64_t>(head) * kValues + d + threadIdx.x,
      sum / total);
}

/// As ReduceWideKernel for listed splits, with a warp per query and 128 dimensions.
template <int kValues>
__global__ void __launch_bounds__(kBlockThreads) ReduceFewWideKernel(AttentionPlan a) {
  TriggerProgrammaticLaunch();
  constexpr int kSlices = kValues / kDims;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, at = blockIdx.x * kWarps + warp;
  const int m = at / kSlices, d = at % kSlices * kDims + lane * 4, t = static_cast<int>(blockIdx.z);
  const StagedTile tile = a.tiles[t];
  const int count = ListedSplits(a, t);
  GridDependencySync();
  if (m >= tile.rows * a.tile_heads || count == 1) return;
  const WidePartials<kValues> partials(a, t, t, blockIdx.y, gridDim.y);
  const float* stats = partials.first + kWideQueries * kValues + 2 * m;
  float max_score = -INFINITY;
  for (int p = lane; p < count; p += 32) max_score = fmaxf(max_score, stats[p * partials.stride]);
  for (int step = 16; step > 0; step /= 2) max_score = fmaxf(max_score, __shfl_xor_sync(0xffffffffu, max_score, step));
  SplitsSum own;
  AddSplits<1>(partials.first + m * kValues + d, stats, partials.stride, 0, count, max_score, &own);
  const int row = RowOfQuery(a, m), head = static_cast<int>(blockIdx.y) * a.tile_heads + m - row * a.tile_heads;
  const float by = 1.0f / own.total;
  StoreFloat4(a.out.data, a.out.dtype,
              static_cast<int64_t>(tile.row + row) * a.out.stride + static_cast<int64_t>(head) * kValues + d,
              float4{own.sum.x * by, own.sum.y * by, own.sum.z * by, own.sum.w * by});
}

}  // namespace

int32_t WideAttentionQueries(const AttentionPlan& plan) {
  const bool latent =
      (plan.head_dim == 576 && plan.value_dim == 512) || (plan.head_dim == 320 && plan.value_dim == 256);
  const bool size = plan.latent != 0 ? latent && plan.kv_heads == 1 : plan.head_dim == 512;
  const bool type = plan.cache == DType::kF16 || plan.cache == DType::kBF16 || plan.cache == DType::kF8E4M3;
  return size && type ? kWideQueries : 0;
}

int64_t WidePartialBytes(const AttentionPlan& plan) {
  return int64_t{kWideQueries} * (plan.value_dim + 2) * static_cast<int64_t>(sizeof(float));
}

void LaunchWideAttention(const Launcher& on, const AttentionPlan& plan, int64_t partial_bytes) {
  const bool fixed = plan.wide_splits == nullptr;
  const int head_tiles = plan.heads / plan.tile_heads;
  // With a fixed order, as many tiles at once as there is room for their splits.
  const int64_t at_once = fixed ? partial_bytes / (WidePartialBytes(plan) * plan.splits * head_tiles) : plan.tile_count;
  CHECK_GT(at_once, 0);
  for (int first = 0; first < plan.tile_count; first += static_cast<int>(at_once)) {
    const int64_t count = std::min<int64_t>(at_once, plan.tile_count - first);
    const auto launch = plan.cache == DType::kF16    ? LaunchWideF16
                        : plan.cache == DType::kBF16 ? LaunchWideBf16
                                                     : LaunchWideF8;
    launch(on, plan, first, count);
    if (!fixed && plan.splits <= plan.tile_count) continue;
    if (!fixed && plan.splits <= kFewSplits * plan.tile_count) {
      Launch(on, plan.value_dim == 512 ? ReduceFewWideKernel<512> : ReduceFewWideKernel<256>,
             Grid(kWideQueries * (plan.value_dim / kDims) / kWarps, head_tiles, count), kBlockThreads, 0, plan);
      continue;
    }
    Launch(on, plan.value_dim == 512 ? ReduceWideKernel<512> : ReduceWideKernel<256>,
           Grid(kWideQueries * (plan.value_dim / kDims), head_tiles, count), kBlockThreads, 0, plan, first);
  }
}

}  // namespace ringside::cuda
