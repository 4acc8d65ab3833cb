// Reduces the splits of attention tiles on devices without clusters (attention_tiled.cuh). Every block has written its
// sums, running maxima and sums of probabilities to global memory; a thread reduces four dimensions of a query in split
// order.
#include "kernels/cuda/attention/attention_inl.cuh"
#include "kernels/cuda/launch.cuh"

namespace ringside::cuda {
namespace {

__global__ void __launch_bounds__(kBlockThreads)
    ReduceSplitsKernel(AttentionPlan a, const StagedTile* tiles, int queries, int splits) {
  BeginDependentKernel();
  const StagedTile tile = tiles[blockIdx.z];
  const int fours = a.head_dim / 4, i = blockIdx.x * kBlockThreads + threadIdx.x;
  const int query = i / fours, d = i % fours * 4, m = query % 16, warp_rows = 16 / a.tile_heads;
  const int row = query / 16 * warp_rows + RowOfQuery(a, m);
  if (query >= queries || m >= warp_rows * a.tile_heads || row >= tile.rows) return;
  const int64_t stride = static_cast<int64_t>(queries) * (a.head_dim + 2);  // stride between splits
  const float* sums = a.partial + (blockIdx.z * gridDim.y + blockIdx.y) * splits * stride;
  const float* stats = sums + queries * a.head_dim + 2 * query;
  float max_score = -INFINITY, total = 0;
  for (int p = 0; p < splits; ++p) max_score = fmaxf(max_score, stats[p * stride]);
  float4 out = {0, 0, 0, 0};
  for (int p = 0; p < splits; ++p) {
    const float rescale = RescaleFactor(max_score, stats[p * stride]);
    const float4 v = *reinterpret_cast<const float4*>(sums + p * stride + query * a.head_dim + d);
    total += stats[p * stride + 1] * rescale;
    out.x += v.x * rescale, out.y += v.y * rescale, out.z += v.z * rescale, out.w += v.w * rescale;
  }
  const int head = blockIdx.y * a.tile_heads + m - RowOfQuery(a, m) * a.tile_heads;
  const int64_t at = static_cast<int64_t>(tile.row + row) * a.out.stride + static_cast<int64_t>(head) * a.head_dim + d;
  StoreFloat4(a.out.data, a.out.dtype, at, float4{out.x / total, out.y / total, out.z / total, out.w / total});
}

}  // namespace

void LaunchReduceSplits(const Launcher& on, const AttentionPlan& plan, const StagedTile* tiles, int64_t count,
                        int queries, int splits) {
  const int64_t threads = int64_t{queries} * (plan.head_dim / 4);
  Launch(on, ReduceSplitsKernel,
         Grid((threads + kBlockThreads - 1) / kBlockThreads, plan.heads / plan.tile_heads, count), kBlockThreads, 0,
         plan, tiles, queries, splits);
}

}  // namespace ringside::cuda
