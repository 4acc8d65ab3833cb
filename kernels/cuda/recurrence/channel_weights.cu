// As chunk_weights.cu for decays of key channels (Kimi Delta Attention). Between blocks of 16 rows a decay is a product
// of two, with the row between them as the reference, so that neither grows; products are then those of scaled keys, on
// tensor cores. Within a block every pair of rows has its own exponentials: e^(G_t - G_i) is at most 1, while its
// factors could overflow.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/recurrence/chunk_solver.cuh"

namespace ringside::cuda {
namespace {

constexpr int kKeys = 128;          // channels of a key
constexpr int kStride = kKeys + 4;  // of rows in float32
constexpr int kRows = kStateChunk * kStride * 4;
constexpr int kBefore = kStateChunk - kSolverBlock;  // most rows before a block
constexpr int kLeftPart = kSolverBlock * kKeys * 2, kRightPart = kBefore * kKeys * 2;

/// Shared memory in bytes: k, q and G; scaled rows of a block, k and q in two parts each; scaled keys before it;
/// products; 0 instead of G, and b. Later the system takes the place of scaled rows.
constexpr int kLeft = 3 * kRows, kRight = kLeft + 4 * kLeftPart, kProducts = kRight + 2 * kRightPart;
constexpr int kDecays = kProducts + 2 * kStateChunk * kProductStride * 4, kBytes = kDecays + 2 * kStateChunk * 4;

/// Four values of a row's k, q or G.
__device__ __forceinline__ float4& At(char* shared, int matrix, int row, int c) {
  return *reinterpret_cast<float4*>(shared + matrix * kRows + (row * kStride + 4 * c) * 4);
}
__device__ __forceinline__ float Dot(float4 x, float4 y) {
  return fmaf(x.x, y.x, fmaf(x.y, y.y, fmaf(x.z, y.z, x.w * y.w)));
}

/// Products of rows of one block: a warp per row, four channels per lane.
__device__ __forceinline__ void MultiplyWithin(char* shared, float* products) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int row = static_cast<int>(threadIdx.x) / 32; row < kStateChunk; row += kWeightThreads / 32) {
    const float4 key = At(shared, 0, row, lane), query = At(shared, 1, row, lane), decay = At(shared, 2, row, lane);
    for (int i = row - row % kSolverBlock; i <= row; ++i) {
      const float4 scaled = Multiply(At(shared, 0, i, lane), ExpOfDifference(decay, At(shared, 2, i, lane)));
      const float by_key = SumOverWarp(Dot(scaled, key)), by_query = SumOverWarp(Dot(scaled, query));
      if (lane > 0) continue;
      products[row * kProductStride + i] = by_key;
      products[(kStateChunk + row) * kProductStride + i] = by_query;
    }
  }
}

/// Products of the rows of a block with the keys of all blocks before it.
__device__ __forceinline__ void MultiplyBefore(char* shared, float* products, int block) {
  const int first = block * kSolverBlock;
  char *left = shared + kLeft, *right = shared + kRight;
  for (int i = threadIdx.x; i < (first + kSolverBlock) * (kKeys / 4); i += kWeightThreads) {
    const int row = i / (kKeys / 4), c = i % (kKeys / 4);
    const float4 reference = At(shared, 2, first, c), decay = At(shared, 2, row, c), key = At(shared, 0, row, c);
    if (row < first) {
      StoreSplit<kKeys, kBefore>(right, right + kRightPart, row, c, Multiply(key, ExpOfDifference(reference, decay)));
      continue;
    }
    const float4 factor = ExpOfDifference(decay, reference);
    StoreSplit<kKeys, kSolverBlock>(left, left + kLeftPart, row - first, c, Multiply(key, factor));
    StoreSplit<kKeys, kSolverBlock>(left + 2 * kLeftPart, left + 3 * kLeftPart, row - first, c,
                                    Multiply(At(shared, 1, row, c), factor));
  }
  __syncthreads();
  for (int task = static_cast<int>(threadIdx.x) / 32; task < 2 * block; task += kWeightThreads / 32) {
    const int matrix = task % 2, other = task / 2;
    const uint32_t a_tile = SharedAddress(left) + 2 * matrix * kLeftPart, b_tile = SharedAddress(right);
    float sums[2][4] = {};
#pragma unroll 4
    for (int k = 0; k < kKeys / 16; ++k) {
      SplitOperand a;
      uint32_t high[4], low[4];
      LoadLeftOperand<kKeys, kSolverBlock>(a.high, a_tile, 0, k),
          LoadLeftOperand<kKeys, kSolverBlock>(a.low, a_tile + kLeftPart, 0, k);
      LoadRowOperand<kKeys, kBefore>(high, b_tile, other * kSolverBlock, k);
      LoadRowOperand<kKeys, kBefore>(low, b_tile + kRightPart, other * kSolverBlock, k);
      MultiplyAddSplit(sums[0], sums[1], a, high, low);
    }
    StoreProducts(products + (matrix * kStateChunk + first) * kProductStride + other * kSolverBlock, sums[0], sums[1]);
  }
  __syncthreads();
}

/// Stores keys and queries for chunk_states.cu. The state's value for the key of a row in the tail is not needed.
__device__ __forceinline__ void StoreScaledKeys(char* shared, const ChunkRows& rows, char* to) {
  constexpr int kPart = kStateChunk * kKeys * 2;
  for (int i = threadIdx.x; i < kStateChunk * kKeys / 4; i += kWeightThreads) {
    const int r = i / (kKeys / 4), c = i % (kKeys / 4);
    const float4 key = At(shared, 0, r, c), decay = At(shared, 2, r, c), last = At(shared, 2, kStateChunk - 1, c),
                 zero{}, factor = r < rows.begin ? zero : ExpOfDifference(decay, zero);
    StoreSplit<kKeys>(to, to + kPart, r, c, Multiply(key, factor));
    StoreSplit<kKeys>(to + 2 * kPart, to + 3 * kPart, r, c, Multiply(At(shared, 1, r, c), factor));
    StoreSplit<kKeys>(to + 4 * kPart, to + 5 * kPart, r, c, Multiply(key, ExpOfDifference(last, decay)));
    if (r == 0) *reinterpret_cast<float4*>(to + 6 * kPart + 16 * c) = ExpOfDifference(last, zero);
  }
}

__global__ void __launch_bounds__(kWeightThreads)
    ChannelWeightsKernel(RecurrencePlan a, ChunkRange chunks, char* images) {
  extern __shared__ float4 shared_vectors[];
  auto* shared = reinterpret_cast<char*>(shared_vectors);
  auto* products = reinterpret_cast<float*>(shared + kProducts);
  auto* decays = reinterpret_cast<float*>(shared + kDecays);
  auto* system = reinterpret_cast<float*>(shared + kLeft);
  const int chunk = chunks.first + static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y);
  BeginDependentKernel();
  const StagedState s = a.runs[blockIdx.z];
  if (chunk >= ChunksOf(s)) return;
  const ChunkRows rows = RowsOfChunk(a, s, chunk);
  for (int i = threadIdx.x; i < kStateChunk * kKeys / 4; i += kWeightThreads) {
    const int r = i / (kKeys / 4), c = i % (kKeys / 4), channel = KeyHeadOf(a, head) * kKeys + 4 * c;
    At(shared, 0, r, c) = rows.Load(r, a.key_channel + channel, a.key_in_row + channel);
    At(shared, 1, r, c) = rows.LoadOwn(r, a.query_channel + channel);
    At(shared, 2, r, c) = rows.Load(min(r, rows.end - 1), a.channels + channel, a.decay_in_row + channel);
  }
  LoadDecays(a, rows, head, decays);
  __syncthreads();
  MultiplyWithin(shared, products);
  for (int block = 1; block < kStateChunk / kSolverBlock; ++block) MultiplyBefore(shared, products, block);
  __syncthreads();
  const ChunkImage layout(a);
  char* image = images + (static_cast<int64_t>(blockIdx.z) * chunks.count + blockIdx.x) * layout.bytes;
  const int group = a.value_heads / a.key_heads, key_head = KeyHeadOf(a, head);
  if (a.alternates != 0 ? head < a.key_heads : head % group == 0) {
    StoreScaledKeys(shared, rows, image + layout.Keys(a, key_head));
  }
  char* to = image + layout.Head(head);
  StoreFactors(rows, decays, to + kChunkWeightBytes);
  WeighChunk(a, products, decays, system, to);
  __syncthreads();
  if (threadIdx.x < kStateChunk) InvertColumn(system, static_cast<int>(threadIdx.x), to);
}

}  // namespace

void LaunchChannelWeights(const Launcher& on, const RecurrencePlan& plan, const ChunkRange& chunks, void* images) {
  Launch(on, ChannelWeightsKernel, Grid(chunks.count, plan.value_heads, plan.run_count), kWeightThreads,
         static_cast<size_t>(kBytes), plan, chunks, static_cast<char*>(images));
}

}  // namespace ringside::cuda
