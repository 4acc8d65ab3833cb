// Reduces the splits of attention tiles that form no cluster (attention_tiled.cuh). Every block has written its sums,
// running maxima and sums of probabilities to global memory. Four threads reduce four dimensions of a query, each every
// fourth split in split order; then these four in order. Applies the gate of the results, if there is one.
#include "kernels/cuda/attention/partial_sums.cuh"
#include "kernels/cuda/launch.cuh"

namespace ringside::cuda {
namespace {

constexpr int kParts = 4, kItems = kBlockThreads / kParts;  // splits of one item that are reduced concurrently; items

__global__ void __launch_bounds__(kBlockThreads)
    ReduceSplitsKernel(AttentionPlan a, const StagedTile* tiles, int queries, int splits) {
  __shared__ float4 outs[kBlockThreads];
  __shared__ float2 totals[kBlockThreads];  // running maximum, sum of probabilities
  BeginDependentKernel();
  const StagedTile tile = tiles[blockIdx.z];
  const int fours = a.head_dim / 4, i = blockIdx.x * kItems + threadIdx.x % kItems, part = threadIdx.x / kItems;
  const int query = i / fours, d = i % fours * 4, m = query % 16, warp_rows = 16 / a.tile_heads;
  const int row = query / 16 * warp_rows + RowOfQuery(a, m);
  const bool there = query < queries && m < warp_rows * a.tile_heads && row < tile.rows;
  const int64_t stride = static_cast<int64_t>(queries) * (a.head_dim + 2);  // stride between splits
  const float* sums = a.partial + (blockIdx.z * gridDim.y + blockIdx.y) * splits * stride;
  const float* stats = sums + queries * a.head_dim + 2 * query;
  PartialSums own;
#pragma unroll 8
  for (int p = part; there && p < splits; p += kParts) {
    own.Add(*reinterpret_cast<const float4*>(sums + p * stride + query * a.head_dim + d), stats[p * stride],
            stats[p * stride + 1]);
  }
  outs[threadIdx.x] = own.out, totals[threadIdx.x] = {own.max_score, own.total};
  __syncthreads();
  if (part > 0 || !there) return;
  for (int p = 1; p < kParts; ++p) {
    const float2 other = totals[p * kItems + threadIdx.x];
    own.Add(outs[p * kItems + threadIdx.x], other.x, other.y);
  }
  const int head = blockIdx.y * a.tile_heads + m - RowOfQuery(a, m) * a.tile_heads;
  const int64_t column = static_cast<int64_t>(head) * a.head_dim + d, to_row = tile.row + row;
  float4 out = {own.out.x / own.total, own.out.y / own.total, own.out.z / own.total, own.out.w / own.total};
  if (a.gate.data != nullptr) out = TimesGate(out, a.gate, a.gate_kind, a.gate_columns, to_row, column);
  StoreFloat4(a.out.data, a.out.dtype, to_row * a.out.stride + column, out);
}

}  // namespace

void LaunchReduceSplits(const Launcher& on, const AttentionPlan& plan, const StagedTile* tiles, int64_t count,
                        int queries, int splits) {
  const int64_t threads = int64_t{queries} * (plan.head_dim / 4);
  Launch(on, ReduceSplitsKernel, Grid((threads + kItems - 1) / kItems, plan.heads / plan.tile_heads, count),
         kBlockThreads, 0, plan, tiles, queries, splits);
}

}  // namespace ringside::cuda
