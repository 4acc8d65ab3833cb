// Merges the partial results of shared prefixes (attention_prefix.cuh) with those of the rows' own keys, and replaces
// the rows' results, which attention_reduce.cu has reduced from their own keys alone. As there, four threads reduce
// four dimensions of a query: each every fourth split, of the own keys and then of the prefix; then these four in
// order.
#include "kernels/cuda/attention/partial_sums.cuh"
#include "kernels/cuda/attention/prefix_plan.h"
#include "kernels/cuda/launch.cuh"

namespace ringside::cuda {
namespace {

constexpr int kParts = 4, kItems = kBlockThreads / kParts;  // splits of one item that are reduced concurrently; items

/// Adds every kParts-th of the `splits` partial results of a query's four dimensions from `d` on, from `part` on.
/// `blocks`: the first split's sums of `queries` queries.
__device__ __forceinline__ void AddSplits(const float* blocks, int queries, int query, int head_dim, int d, int splits,
                                          int part, PartialSums& own) {
  const int64_t stride = static_cast<int64_t>(queries) * (head_dim + 2);  // stride between splits
  const float* stats = blocks + static_cast<int64_t>(queries) * head_dim + 2 * query;
#pragma unroll 4
  for (int i = part; i < splits; i += kParts) {
    own.Add(*reinterpret_cast<const float4*>(blocks + i * stride + query * head_dim + d), stats[i * stride],
            stats[i * stride + 1]);
  }
}

__global__ void __launch_bounds__(kBlockThreads) MergePrefixesKernel(AttentionPlan a, PrefixPlan p) {
  __shared__ float4 outs[kBlockThreads];
  __shared__ float2 totals[kBlockThreads];  // running maximum, sum of probabilities
  BeginDependentKernel();
  const StagedTile tile = a.tiles[blockIdx.z];
  const int fours = a.head_dim / 4, i = blockIdx.x * kItems + threadIdx.x % kItems, part = threadIdx.x / kItems;
  const int query = i / fours, d = i % fours * 4, row = RowOfQuery(a, query), head = query - row * a.tile_heads;
  const int slot = row < tile.rows ? p.slots[tile.row + row] : -1;
  PartialSums own;
  if (slot >= 0) {
    const auto blocks = [&](float* partial, int index, int splits, int queries) {
      const int64_t block = (static_cast<int64_t>(index) * gridDim.y + blockIdx.y) * splits;
      return partial + block * queries * (a.head_dim + 2);
    };
    AddSplits(blocks(a.partial, blockIdx.z, a.splits, 16), 16, query, a.head_dim, d, a.splits, part, own);
    const int warp_rows = p.tile_rows / (kPrefixQueries / 16), prefix = slot / p.tile_rows, at = slot % p.tile_rows;
    AddSplits(blocks(p.partial, prefix, p.splits, kPrefixQueries), kPrefixQueries,
              at / warp_rows * 16 + at % warp_rows * a.tile_heads + head, a.head_dim, d, p.splits, part, own);
  }
  outs[threadIdx.x] = own.out, totals[threadIdx.x] = {own.max_score, own.total};
  __syncthreads();
  if (part > 0 || slot < 0) return;
  for (int other = 1; other < kParts; ++other) {
    const float2 total = totals[other * kItems + threadIdx.x];
    own.Add(outs[other * kItems + threadIdx.x], total.x, total.y);
  }
  const int64_t column = static_cast<int64_t>(blockIdx.y * a.tile_heads + head) * a.head_dim + d;
  float4 out = {own.out.x / own.total, own.out.y / own.total, own.out.z / own.total, own.out.w / own.total};
  if (a.gate.data != nullptr) out = TimesGate(out, a.gate, a.gate_kind, a.gate_columns, tile.row + row, column);
  StoreFloat4(a.out.data, a.out.dtype, static_cast<int64_t>(tile.row + row) * a.out.stride + column, out);
}

}  // namespace

void LaunchMergePrefixes(const Launcher& on, const AttentionPlan& plan, const PrefixPlan& prefixes) {
  CHECK(plan.apart != 0 && plan.splits > 1);
  const int64_t threads = int64_t{16} / plan.tile_heads * plan.tile_heads * (plan.head_dim / 4);
  Launch(on, MergePrefixesKernel, Grid((threads + kItems - 1) / kItems, plan.heads / plan.tile_heads, plan.tile_count),
         kBlockThreads, 0, plan, prefixes);
}

}  // namespace ringside::cuda
