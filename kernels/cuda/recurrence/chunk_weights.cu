// Weights of whole chunks of a recurrent mixer (kernels/recurrence.h), for all value heads of a key head: the products
// of keys and queries are computed once on tensor cores. With A_ti = b_t e^(G_t - G_i) (k_i . k_t) for i < t, u solves
// (I + A) u = b (v - e^G S_0^T k). chunk_states.cu solves it in blocks of 16 rows, so this kernel stores -A with the
// blocks of the diagonal replaced by the inverses of I + A there; and the factors of u in o.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/recurrence/chunk_solver.cuh"

namespace ringside::cuda {
namespace {

constexpr int kMaxHeads = 8;  // value heads of a block

/// Shared memory in bytes: q and k in two parts each, whose place the blocks on the diagonal take later; products.
template <int kKeys>
struct WeightsLayout {
  static constexpr int kPart = kStateChunk * kKeys * 2;
  static constexpr int kProducts = 4 * kPart;  // [2][kStateChunk][kProductStride]: of keys with keys, with queries
  static constexpr int kDecays = kProducts + 2 * kStateChunk * kProductStride * 4;  // [2][kStateChunk]: G, b
  static constexpr int kBytes = kDecays + 2 * kStateChunk * 4;
};

/// Keys and queries of the chunk, in two parts.
template <int kKeys>
__device__ __forceinline__ void LoadKeys(const RecurrencePlan& a, const ChunkRows& rows, int key_head, char* shared) {
  constexpr int kPart = WeightsLayout<kKeys>::kPart;
  for (int i = threadIdx.x; i < kStateChunk * kKeys / 4; i += kWeightThreads) {
    const int r = i / (kKeys / 4), c = i % (kKeys / 4);
    const int channel = key_head * kKeys + 4 * c;
    StoreSplit<kKeys>(shared, shared + kPart, r, c, rows.Load(r, a.key_channel + channel, a.key_in_row + channel));
    StoreSplit<kKeys>(shared + 2 * kPart, shared + 3 * kPart, r, c, rows.LoadOwn(r, a.query_channel + channel));
  }
}

/// 16 rows of the products of keys (warps 4 to 7: of queries) with all keys up to them.
template <int kKeys>
__device__ __forceinline__ void MultiplyKeys(char* shared) {
  using Layout = WeightsLayout<kKeys>;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int matrix = warp / 4, rows = warp % 4 * kSolverBlock;
  const uint32_t keys = SharedAddress(shared), left = keys + 2 * matrix * Layout::kPart;
  float sums[kStateChunk / 8][4] = {};
#pragma unroll 2
  for (int k = 0; k < kKeys / 16; ++k) {
    SplitOperand a;
    LoadLeftOperand<kKeys>(a.high, left, rows, k), LoadLeftOperand<kKeys>(a.low, left + Layout::kPart, rows, k);
#pragma unroll
    for (int n = 0; n < kStateChunk / 16; ++n) {
      if (n * 16 > rows) break;
      uint32_t high[4], low[4];
      LoadRowOperand<kKeys>(high, keys, n * 16, k), LoadRowOperand<kKeys>(low, keys + Layout::kPart, n * 16, k);
      MultiplyAddSplit(sums[2 * n], sums[2 * n + 1], a, high, low);
    }
  }
  auto* products =
      reinterpret_cast<float*>(shared + Layout::kProducts) + (matrix * kStateChunk + rows) * kProductStride;
#pragma unroll
  for (int n = 0; n < kStateChunk / 16; ++n) StoreProducts(products + 16 * n, sums[2 * n], sums[2 * n + 1]);
}

template <int kKeys>
__global__ void __launch_bounds__(kWeightThreads)
    ChunkWeightsKernel(RecurrencePlan a, ChunkRange chunks, char* weights) {
  using Layout = WeightsLayout<kKeys>;
  extern __shared__ float4 shared_vectors[];
  auto* shared = reinterpret_cast<char*>(shared_vectors);
  auto* products = reinterpret_cast<float*>(shared + Layout::kProducts);
  auto* decays = reinterpret_cast<float*>(shared + Layout::kDecays);
  auto* blocks = reinterpret_cast<float*>(shared);
  const int group = a.value_heads / a.key_heads, chunk = chunks.first + static_cast<int>(blockIdx.x);
  const int key_head = static_cast<int>(blockIdx.y) % a.key_heads,
            first = static_cast<int>(blockIdx.y) / a.key_heads * kMaxHeads;
  BeginDependentKernel();
  const StagedState s = a.runs[blockIdx.z];
  if (chunk >= ChunksOf(s)) return;
  const ChunkRows rows = RowsOfChunk(a, s, chunk);
  weights += (static_cast<int64_t>(blockIdx.z) * chunks.count + blockIdx.x) * a.value_heads * kChunkWeightBytes;
  LoadKeys<kKeys>(a, rows, key_head, shared);
  __syncthreads();
  MultiplyKeys<kKeys>(shared);
  for (int n = first; n < min(first + kMaxHeads, group); ++n) {
    const int head = a.alternates != 0 ? key_head + n * a.key_heads : key_head * group + n;
    LoadDecays(a, rows, head, decays);
    __syncthreads();
    char* to = weights + static_cast<int64_t>(head) * kChunkWeightBytes;
    WeighChunk(a, products, decays, blocks, to);
    __syncthreads();
    if (a.corrects != 0) InvertBlocks(blocks, to);
    __syncthreads();
  }
}

}  // namespace

void LaunchHeadWeights(const Launcher& on, const RecurrencePlan& plan, const ChunkRange& chunks, void* weights) {
  const auto launch = [&](auto kernel, int bytes) {
    const int64_t groups = (plan.value_heads / plan.key_heads + kMaxHeads - 1) / kMaxHeads;
    Launch(on, kernel, Grid(chunks.count, plan.key_heads * groups, plan.run_count), kWeightThreads,
           static_cast<size_t>(bytes), plan, chunks, static_cast<char*>(weights));
  };
  plan.key_size == 128 ? launch(ChunkWeightsKernel<128>, WeightsLayout<128>::kBytes)
                       : launch(ChunkWeightsKernel<64>, WeightsLayout<64>::kBytes);
}

}  // namespace ringside::cuda
