// y (+)= x W^T + bias for up to about a hundred rows of x and one-byte weights. Bound by reading W once. A block has 64
// or 128 outputs (with SiLU: 64 gates and their ups) and up to 64 rows of x. It advances by 128 inputs at a time: all
// threads copy weights and rows into shared-memory pipeline stages. The weights, dequantized to T, are the left operand
// of the MMAs; each of the 8 warps has a quarter of the outputs and half of each K tile. If there are too few output
// tiles for the device, the CTAs of a cluster split K; the split depends on W's shape and on the number of resident
// clusters, or with a fixed order on the shape alone (linear_tiling.cpp). All sums are in a fixed order, so a row's
// bits do not depend on the number of rows.
#include <algorithm>
#include <bit>

#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/linear/gemm_inl.cuh"

namespace ringside::cuda {
namespace {

constexpr int kChunk = kW8KTile, kOutputs = kW8Outputs;  // a block has kTiles tiles
constexpr int kRingBytes = 96 << 10;                     // lets two blocks share an SM of 227 KiB
constexpr int kMaxColumns = 8;

template <int kTiles, int kColumns>
struct Sizes {
  static constexpr int kRows = 8 * kColumns, kAll = kTiles * kOutputs;
  static constexpr int kWeightBytes = kAll * kChunk, kStage = kWeightBytes + kRows * kChunk * 2;
  static constexpr int kStages = std::min(6, kRingBytes / kStage);
  static constexpr int kSumRow = kAll + 4;  // floats between rows of x in the sums
  static constexpr int kSumBytes = 2 * kRows * kSumRow * static_cast<int>(sizeof(float));
  static constexpr int kBytes = std::max(kStages * kStage, kSumBytes);
};

/// Copies a block's stages. Missing inputs are filled with zeros: a zero-size copy reads nothing.
template <class T, class W, int kTiles, int kColumns, bool kGateUp>
class Feed {
 public:
  using S = Sizes<kTiles, kColumns>;

  __device__ __forceinline__ Feed(const GemmParams& a, int first_output, int first_row, unsigned char* ring)
      : k_(a.k),
        weights_to_(SharedAddress(ring) + threadIdx.x / 8 * kChunk + Piece(threadIdx.x % 8, threadIdx.x / 8)),
        rows_to_(SharedAddress(ring) + S::kWeightBytes + threadIdx.x / 16 * kChunk * 2 +
                 Piece(threadIdx.x % 16, threadIdx.x / 16)),
        left_(a.rows - first_row - static_cast<int>(threadIdx.x) / 16),
        x_stride_(a.x_stride * kRowStep),
        x_(static_cast<const T*>(a.x) + (first_row + static_cast<int>(threadIdx.x) / 16) * a.x_stride +
           threadIdx.x % 16 * 8) {
    const int half = a.total / 2;
#pragma unroll
    for (int i = 0; i < kWeightRows; ++i) {
      const int place = static_cast<int>(threadIdx.x) / 8 + i * kPlaceStep;
      const W* row;
      if constexpr (kGateUp) {
        const int output = first_output + place % kOutputs;
        row = output < half ? WeightRow<W>(a, output + (place >= kOutputs ? half : 0)) : nullptr;
      } else {
        row = WeightRow<W>(a, first_output + place);
      }
      if (row != nullptr) real_ |= 1u << i;
      weights_[i] = (row != nullptr ? row : static_cast<const W*>(a.weights[0])) + threadIdx.x % 8 * 16;
    }
  }
  __device__ __forceinline__ void Weights(int chunk, int stage) const {
    const int input = chunk * kChunk;
    const bool inside = input + static_cast<int>(threadIdx.x) % 8 * 16 < k_;
#pragma unroll
    for (int i = 0; i < kWeightRows; ++i) {
      CopyAsyncOrZero(weights_to_ + stage * S::kStage + i * kPlaceStep * kChunk, weights_[i] + input,
                      inside && (real_ >> i & 1) != 0);
    }
  }
  __device__ __forceinline__ void Rows(int chunk, int stage) const {
    const int input = chunk * kChunk;
    const bool inside = input + static_cast<int>(threadIdx.x) % 16 * 8 < k_;
    if (S::kRows < kRowStep && threadIdx.x >= S::kRows * 16) return;
#pragma unroll
    for (int i = 0; i < (S::kRows + kRowStep - 1) / kRowStep; ++i) {
      CopyAsyncOrZero(rows_to_ + stage * S::kStage + i * kRowStep * kChunk * 2, x_ + i * x_stride_ + input,
                      inside && i * kRowStep < left_);
    }
  }

 private:
  static constexpr int kPlaceStep = kBlockThreads / 8, kRowStep = kBlockThreads / 16;
  static constexpr int kWeightRows = S::kAll / kPlaceStep;
  /// Swizzle of 16-byte chunks within a row: eight rows use different banks.
  __device__ __forceinline__ static constexpr uint32_t Piece(unsigned piece, unsigned row) {
    return (piece ^ row % 8) * 16;
  }
  const int k_;
  const uint32_t weights_to_, rows_to_;
  const int left_;  // rows of x from this thread's first on
  const int64_t x_stride_;
  const T* const x_;
  uint32_t real_ = 0;
  const W* weights_[kWeightRows];
};

/// Multiplies a warp's half of a stage: 64 inputs of 16 outputs per tile.
template <class T, class W, int kTiles, int kColumns>
__device__ __forceinline__ void MultiplyStage(float (&c)[kTiles][kColumns][4], const unsigned char* stage) {
  using S = Sizes<kTiles, kColumns>;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, matrix = lane / 8, line = lane % 8;
  const int quarter = warp % 4, part = warp / 4;
#pragma unroll
  for (int step = 0; step < 2; ++step) {  // 32 inputs each
    const int group = part * 4 + step * 2;
    uint32_t w[kTiles][4], x[kColumns][4];
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      const int row = t * kOutputs + quarter * 16 + matrix % 2 * 8 + line;
      LoadMatrices(w[t], SharedAddress(stage + row * kChunk + ((group + matrix / 2) ^ line) * 16));
    }
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
      LoadMatrices(x[n], SharedAddress(stage + S::kWeightBytes + (n * 8 + line) * kChunk * 2 +
                                       ((group * 2 + matrix) ^ line) * 16));
    }
#pragma unroll
    for (int k = 0; k < 2; ++k) {
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        const uint32_t left[4] = {LowPair(w[t][2 * k], W(), T()), LowPair(w[t][2 * k + 1], W(), T()),
                                  HighPair(w[t][2 * k], W(), T()), HighPair(w[t][2 * k + 1], W(), T())};
#pragma unroll
        for (int n = 0; n < kColumns; ++n) MultiplyAdd(c[t][n], left, x[n][2 * k], x[n][2 * k + 1], T());
      }
    }
  }
}

/// Reduces the warp halves and the split-K partial sums across the cluster (DSMEM); each CTA stores its slice.
template <class T, class W, int kTiles, int kColumns, bool kGateUp>
__device__ __forceinline__ void FinishBlock(const GemmParams& a, int first_output, int first_row, const float* sums) {
  using S = Sizes<kTiles, kColumns>;
  const int split_k = ClusterBlocks(), rank = ClusterRank(), half = a.total / 2;
  constexpr int kResults = kGateUp ? kOutputs : S::kAll;
  const int rows = min(a.rows - first_row, S::kRows), all = kGateUp ? half : a.total;
  for (int i = rank * kBlockThreads + static_cast<int>(threadIdx.x); i < rows * kResults;
       i += split_k * kBlockThreads) {
    const int row = i / kResults, place = i % kResults, output = first_output + place;
    if (output >= all) continue;
    const auto sum_of = [&](int at) {
      float sum = 0;
      for (int s = 0; s < split_k; ++s) {
        const float* own = sums + row * S::kSumRow + at;
        const float* of = split_k == 1 ? own : MapToBlock(own, s);
        sum += of[0] + of[S::kRows * S::kSumRow];
      }
      return sum;
    };
    if constexpr (kGateUp) {
      StoreGateUp<T, W>(a, first_row + row, output, sum_of(place), sum_of(kOutputs + place));
    } else {
      StoreOutputEpilogue<T, W>(a, first_row + row, output, sum_of(place));
    }
  }
}

template <class T, class W, int kTiles, int kColumns, bool kGateUp>
__global__ void __launch_bounds__(kBlockThreads, 2) W8A16GemmKernel(GemmParams a) {
  using S = Sizes<kTiles, kColumns>;
  extern __shared__ __align__(16) unsigned char shared[];
  const int split_k = ClusterBlocks(), rank = ClusterRank();
  const int tile = static_cast<int>(blockIdx.x) / split_k, chunks = (a.k + kChunk - 1) / kChunk;
  const int begin = chunks * rank / split_k, count = chunks * (rank + 1) / split_k - begin;
  const int first_output = tile * (kGateUp ? kOutputs : S::kAll), first_row = static_cast<int>(blockIdx.y) * S::kRows;

  const Feed<T, W, kTiles, kColumns, kGateUp> feed(a, first_output, first_row, shared);
  TriggerProgrammaticLaunch();
  for (int i = 0; i < min(count, S::kStages - 1); ++i)
    feed.Weights(begin + i, i);  // independent of the preceding kernel
  GridDependencySync();
  for (int i = 0; i < S::kStages - 1; ++i) {
    if (i < count) feed.Rows(begin + i, i);
    CommitCopies();  // the first group also holds all weights so far
  }
  float c[kTiles][kColumns][4] = {};
  int stage = 0, ahead = S::kStages - 1;
  for (int i = 0; i < count; ++i) {
    WaitForCopies<S::kStages - 2>();
    __syncthreads();  // the copies of all threads have landed, and the previous stage is free
    if (i + S::kStages - 1 < count) {
      feed.Weights(begin + i + S::kStages - 1, ahead);
      feed.Rows(begin + i + S::kStages - 1, ahead);
    }
    CommitCopies();
    MultiplyStage<T, W, kTiles, kColumns>(c, shared + stage * S::kStage);
    stage = stage + 1 == S::kStages ? 0 : stage + 1;
    ahead = ahead + 1 == S::kStages ? 0 : ahead + 1;
  }

  __syncthreads();  // all threads have read the stages; the sums overlay them
  float* sums = reinterpret_cast<float*>(shared);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = n * 8 + lane % 4 * 2 + i % 2, output = t * kOutputs + warp % 4 * 16 + lane / 4 + i / 2 * 8;
        sums[(warp / 4 * S::kRows + row) * S::kSumRow + output] = c[t][n][i];
      }
    }
  }
  ClusterSync();
  FinishBlock<T, W, kTiles, kColumns, kGateUp>(a, first_output, first_row, sums);
  ClusterSync();  // no block exits while others read its sums
}

template <class T, class W, int kTiles, int kColumns, bool kGateUp>
void LaunchTiles(const Launcher& on, const GemmParams& a, const LinearTile& tile) {
  using S = Sizes<kTiles, kColumns>;
  Launcher clustered = on;
  clustered.cluster = tile.split_k;
  Launch(clustered, W8A16GemmKernel<T, W, kTiles, kColumns, kGateUp>,
         Grid(tile.blocks, (a.rows + S::kRows - 1) / S::kRows), kBlockThreads, S::kBytes, a);
}

template <class T, class W, int kTiles, bool kGateUp>
void LaunchOfTiles(const Launcher& on, const GemmParams& a, const LinearTile& tile) {
  if (tile.rows == 8) return LaunchTiles<T, W, kTiles, 1, kGateUp>(on, a, tile);
  if (tile.rows == 16) return LaunchTiles<T, W, kTiles, 2, kGateUp>(on, a, tile);
  if (tile.rows == 32) return LaunchTiles<T, W, kTiles, 4, kGateUp>(on, a, tile);
  LaunchTiles<T, W, kTiles, kMaxColumns, kGateUp>(on, a, tile);
}

template <class T, class W>
void LaunchOfTypes(const Launcher& on, const GemmArgs& args, const LinearTile& tile) {
  const GemmParams a = ToGemmParams(args);
  if (args.epilogue == LinearEpilogue::kSiluMultiply) return LaunchOfTiles<T, W, 2, true>(on, a, tile);
  tile.outputs == 2 * kW8Outputs ? LaunchOfTiles<T, W, 2, false>(on, a, tile)
                                 : LaunchOfTiles<T, W, 1, false>(on, a, tile);
}

}  // namespace

void LaunchW8A16Gemm(const Launcher& on, const GemmArgs& args, const LinearTile& tile) {
  CheckVectorLoads(args);
  CHECK(HasRowScales(args.weight_dtype) && !args.norm && args.x.rows <= kMaxW8Rows && args.k >= kMinGemvInputs);
  const bool integers = args.weight_dtype == DType::kI8;
  if (args.dtype == DType::kF16) {
    return integers ? LaunchOfTypes<__half, Int8>(on, args, tile) : LaunchOfTypes<__half, E4M3>(on, args, tile);
  }
  return integers ? LaunchOfTypes<__nv_bfloat16, Int8>(on, args, tile)
                  : LaunchOfTypes<__nv_bfloat16, E4M3>(on, args, tile);
}

}  // namespace ringside::cuda
