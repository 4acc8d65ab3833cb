// Weights of whole chunks of a recurrent mixer (kernels/recurrence.h), for all value heads of a key head: the products
// of keys and queries are computed once on tensor cores, and the inverses of chunk_solver.cuh by a thread per column,
// for four heads at once. Keys and queries are stored as chunk_states.cu reads them.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/recurrence/chunk_solver.cuh"

namespace ringside::cuda {
namespace {

constexpr int kMaxHeads = 8;                             // value heads of a block
constexpr int kTogether = kWeightThreads / kStateChunk;  // value heads whose inverses are computed at once

/// Shared memory in bytes: k and q in two parts each, whose place the heads' systems take later; products; G and b.
template <int kKeys>
struct WeightsLayout {
  static constexpr int kPart = kStateChunk * kKeys * 2;
  // [2][kStateChunk][kProductStride]: of keys with keys, with queries
  static constexpr int kProducts = 4 * kPart > kTogether* kSystemBytes ? 4 * kPart : kTogether* kSystemBytes;
  static constexpr int kDecays = kProducts + 2 * kStateChunk * kProductStride * 4;  // [kTogether][2][kStateChunk]
  static constexpr int kBytes = kDecays + kTogether * 2 * kStateChunk * 4;
};

/// Keys and queries of the chunk, in two parts.
template <int kKeys>
__device__ __forceinline__ void LoadKeys(const RecurrencePlan& a, const ChunkRows& rows, int key_head, char* shared) {
  constexpr int kPart = WeightsLayout<kKeys>::kPart, kRowVectors = kKeys / 4;
  constexpr int kInFlight = 4;  // loads of k, and of q
  for (int i = threadIdx.x; i < kStateChunk * kRowVectors; i += kInFlight * kWeightThreads) {
    float4 key[kInFlight], query[kInFlight];
    const int c = i % kRowVectors, channel = key_head * kKeys + 4 * c;
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      const int r = (i + j * kWeightThreads) / kRowVectors;
      key[j] = rows.Load(r, a.key_channel + channel, a.key_in_row + channel);
      query[j] = rows.LoadOwn(r, a.query_channel + channel);
    }
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      const int r = (i + j * kWeightThreads) / kRowVectors;
      StoreSplit<kKeys>(shared, shared + kPart, r, c, key[j]);
      StoreSplit<kKeys>(shared + 2 * kPart, shared + 3 * kPart, r, c, query[j]);
    }
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

/// Weights of up to kTogether value heads; head(n) is the n-th.
template <int kKeys, class Head>
__device__ __forceinline__ void WeighHeads(const RecurrencePlan& a, const ChunkRows& rows, int count, const Head& head,
                                           char* shared, char* image) {
  using Layout = WeightsLayout<kKeys>;
  const auto* products = reinterpret_cast<const float*>(shared + Layout::kProducts);
  auto* systems = reinterpret_cast<float*>(shared);
  const auto decays_of = [&](int n) {
    return reinterpret_cast<float*>(shared + Layout::kDecays) + n * 2 * kStateChunk;
  };
  const auto to = [&](int n) { return image + ChunkImage(a).Head(head(n)); };
  for (int n = 0; n < count; ++n) LoadDecays(a, rows, head(n), decays_of(n));
  __syncthreads();
  for (int n = 0; n < count; ++n) {
    StoreFactors(rows, decays_of(n), to(n) + kChunkWeightBytes);
    WeighChunk(a, products, decays_of(n), systems + n * kStateChunk * kStateChunk, to(n));
  }
  __syncthreads();
  const int mine = static_cast<int>(threadIdx.x) / kStateChunk;
  if (a.corrects != 0 && mine < count) {
    InvertColumn(systems + mine * kStateChunk * kStateChunk, static_cast<int>(threadIdx.x) % kStateChunk, to(mine));
  }
  __syncthreads();
}

template <int kKeys>
__global__ void __launch_bounds__(kWeightThreads, 2)
    ChunkWeightsKernel(RecurrencePlan a, ChunkRange chunks, char* images) {
  extern __shared__ float4 shared_vectors[];
  auto* shared = reinterpret_cast<char*>(shared_vectors);
  const int group = a.value_heads / a.key_heads, chunk = chunks.first + static_cast<int>(blockIdx.x);
  const int key_head = static_cast<int>(blockIdx.y) % a.key_heads,
            first = static_cast<int>(blockIdx.y) / a.key_heads * kMaxHeads;
  BeginDependentKernel();
  const StagedState s = a.runs[blockIdx.z];
  if (chunk >= ChunksOf(s)) return;
  const ChunkRows rows = RowsOfChunk(a, s, chunk);
  const ChunkImage layout(a);
  char* image = images + (static_cast<int64_t>(blockIdx.z) * chunks.count + blockIdx.x) * layout.bytes;
  LoadKeys<kKeys>(a, rows, key_head, shared);
  __syncthreads();
  MultiplyKeys<kKeys>(shared);
  if (first == 0) StoreTiles(shared, 4 * WeightsLayout<kKeys>::kPart, image + layout.Keys(a, key_head));
  __syncthreads();
  const int end = min(first + kMaxHeads, group);
  for (int n = first; n < end; n += kTogether) {
    const auto head = [&](int i) {
      return a.alternates != 0 ? key_head + (n + i) * a.key_heads : key_head * group + n + i;
    };
    WeighHeads<kKeys>(a, rows, min(kTogether, end - n), head, shared, image);
  }
}

}  // namespace

void LaunchHeadWeights(const Launcher& on, const RecurrencePlan& plan, const ChunkRange& chunks, void* images) {
  const auto launch = [&](auto kernel, int bytes) {
    const int64_t groups = (plan.value_heads / plan.key_heads + kMaxHeads - 1) / kMaxHeads;
    Launch(on, kernel, Grid(chunks.count, plan.key_heads * groups, plan.run_count), kWeightThreads,
           static_cast<size_t>(bytes), plan, chunks, static_cast<char*>(images));
  };
  plan.key_size == 128 ? launch(ChunkWeightsKernel<128>, WeightsLayout<128>::kBytes)
                       : launch(ChunkWeightsKernel<64>, WeightsLayout<64>::kBytes);
}

}  // namespace ringside::cuda
