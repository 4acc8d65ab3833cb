// y (+)= x W^T + bias for up to 4 rows of x (GEMV), at memory bandwidth: W streams once through shared memory without a
// break between outputs. The grid is persistent with two blocks per SM; each loops over tiles of 8 outputs (or 8 gates
// and their 8 ups). Its 8 warps take every eighth K tile of 128 bytes of a row, each with pipeline stages of its own; a
// block has 80 KB in flight. Partial sums are added in warp order. The rows of x are the left operand of the MMAs,
// repeated to fill 8, so a row's bits do not depend on the number of rows. Measured on an H200, one row, including norm
// and activation: 3.4 to 4.3 TB/s in the layers of an 8B model, 4.35 in its head. (L2 prefetch hints: 2 to 4 % slower.
// One block per SM: 4 % slower.)
//
// Prologue: RMSNorm or LayerNorm of a float32 row, recomputed by every block. Two to four short rows are reduced by a
// warp each, a single one by the block; only there may a row's last bits differ. Epilogue: bias, GELU, or SiLU(gate) *
// up.
//
// Weights have x's type T or one byte (w8_weights.cuh). One-byte weights are the left operand, 16 rows at a
// time; they are dequantized to T between shared memory and the tensor cores, and the row scale is applied to the sum.
// Block-quantized weights have their own kernel (block_quant_gemv.cuh).
#pragma once

#include <algorithm>
#include <type_traits>

#include "kernels/cuda/linear/gemv_epilogue.cuh"
#include "kernels/cuda/linear/w8_weights.cuh"

namespace ringside::cuda {

/// Inputs of a stage: 128 bytes of each of its rows.
template <class W>
constexpr int kGemvKTile = kGemvLineBytes / static_cast<int>(sizeof(W));
/// Rows of W per stage, and outputs per tile; with gate-up half of the rows are ups.
template <class W, bool kGateUp>
constexpr int kUnitRows = GemvUnitRows(sizeof(W) == 1, kGateUp);
template <class W, bool kGateUp>
constexpr int kTileOutputs = kUnitRows<W, kGateUp> / (kGateUp ? 2 : 1);
template <class W, bool kGateUp>
constexpr int kUnitBytes = kUnitRows<W, kGateUp>* kGemvLineBytes;

/// Pipeline stages per warp.
template <class W, bool kGateUp, bool kLarge>
constexpr int kGemvStages = GemvStages(kUnitRows<W, kGateUp>, kLarge);

/// Copies the rows of x to shared memory, zero-padded to whole K tiles.
template <class T, class W>
__device__ __forceinline__ void RowsToShared(const GemmParams& a, T* shared_x) {
  const int units = (a.k + kGemvKTile<W> - 1) / kGemvKTile<W> * (kGemvKTile<W> / 8);
  for (int r = 0; r < a.rows; ++r) {
    for (int i = threadIdx.x; i < units; i += kBlockThreads) {
      const uint4 zero = {0, 0, 0, 0};
      *reinterpret_cast<uint4*>(shared_x + r * a.x_shared_stride + i * 8) =
          i * 8 < a.k ? *reinterpret_cast<const uint4*>(static_cast<const T*>(a.x) + r * a.x_stride + i * 8) : zero;
    }
  }
  __syncthreads();
}

/// A warp's index among the kParts warps that share a tile, its first tile, and the tile stride.
template <int kParts>
struct WarpSchedule {
  int part, first_tile, step;
  __device__ __forceinline__ WarpSchedule() {
    const int warp = static_cast<int>(threadIdx.x / 32), blocks = static_cast<int>(gridDim.x);
    part = warp % kParts;
    first_tile = static_cast<int>(blockIdx.x) + warp / kParts * blocks;
    step = blocks * (kWarps / kParts);
  }
};

/// A warp's stream over the K tiles of all its tiles, prefetched as far as its stages reach.
template <class W, bool kGateUp, int kStages, int kParts>
class WeightStream {
 public:
  static constexpr int kRows = kUnitRows<W, kGateUp>, kOutputs = kTileOutputs<W, kGateUp>;
  static constexpr int kChunk = kGemvKTile<W>, kPiece = kChunk / 8, kStage = kRows * kChunk;  // in elements

  __device__ __forceinline__ WeightStream(const GemmParams& a, int tiles, int chunks, W* stages)
      : a_(a), tiles_(tiles), chunks_(chunks), stages_(stages) {
    chunk_ = schedule_.part, tile_ = chunk_ < chunks ? schedule_.first_tile : tiles;
    FindRows();
  }
  /// Starts the copies of the next K tile, or does nothing past the last.
  __device__ __forceinline__ void Fetch() {
    if (tile_ < tiles_) {
      const int lane = threadIdx.x % 32, input = chunk_ * kChunk + lane % 8 * kPiece;
#pragma unroll
      for (int i = 0; i < kRows / 4; ++i) {
        const int row = i * 4 + lane / 8;
        const bool real = rows_[i] != nullptr && input < a_.k;
        const uint32_t to = SharedAddress(stages_ + stage_ * kStage + row * kChunk + ((lane % 8) ^ (row % 8)) * kPiece);
        const W* from = real ? rows_[i] + input : static_cast<const W*>(a_.weights[0]);
        CopyAsyncOrZero(to, from, real);
      }
      chunk_ += kParts;
      if (chunk_ >= chunks_) {
        chunk_ = schedule_.part;
        tile_ += schedule_.step;
        FindRows();
      }
    }
    CommitCopies();
    stage_ = stage_ + 1 == kStages ? 0 : stage_ + 1;
  }

 private:
  __device__ __forceinline__ void FindRows() {
    if (tile_ >= tiles_) return;
    const int half = a_.total / 2;
#pragma unroll
    for (int i = 0; i < kRows / 4; ++i) {
      const int row = i * 4 + threadIdx.x % 32 / 8, output = tile_ * kOutputs + row % kOutputs;
      if constexpr (kGateUp) {
        rows_[i] = output < half ? WeightRow<W>(a_, output + (row >= kOutputs ? half : 0)) : nullptr;
      } else {
        rows_[i] = WeightRow<W>(a_, output);
      }
    }
  }

  const GemmParams& a_;
  const WarpSchedule<kParts> schedule_;
  const int tiles_, chunks_;
  W* const stages_;
  int tile_, chunk_, stage_ = 0;
  const W* rows_[kRows / 4] = {};
};

/// Epilogue of a tile, by one warp; `own` is the lane's first result.
template <class T, class W, bool kGateUp, int kParts>
__device__ __forceinline__ void FinishTile(const GemmParams& a, const float* sums, int tile, int lane, TileResult own) {
  constexpr int kRow = kUnitRows<W, kGateUp>, kOutputs = kTileOutputs<W, kGateUp>;
  const int all = kGateUp ? a.total / 2 : a.total;
  for (int i = lane; i < a.rows * kOutputs; i += 32) {
    if (i != lane) own = TileResult::Fetch<kOutputs, kGateUp>(a, tile, i, all);
    if (!own.there) continue;
    const auto sum_of = [&](int at) {
      float sum = 0;
#pragma unroll
      for (int v = 0; v < kParts; ++v) sum += sums[(v * a.rows + own.row) * kRow + at];
      return sum;
    };
    const float value = Scaled<T, W>(a, sum_of(own.place), own.output);
    own.Store<T, kGateUp>(a, value, kGateUp ? Scaled<T, W>(a, sum_of(kOutputs + own.place), all + own.output) : 0);
  }
}

/// A warp's accumulators of a tile. 16-bit weights: x is the left operand and 8 rows of W (twice with gate-up) the
/// right one. One-byte weights: 16 rows of W are the left operand, in two accumulation chains. `own_x` and `line` are a
/// lane's LoadMatrices arguments.
template <class T, class W, bool kGateUp>
struct TileSums {
  static constexpr int kRows = kUnitRows<W, kGateUp>, kChunk = kGemvKTile<W>;
  float c[2][4] = {};

  __device__ __forceinline__ void Add(const T* own_x, const W* weights, int matrix, int line) {
    if constexpr (sizeof(W) == 1) {
      AddBytes(own_x, weights, matrix, line);
    } else {
      AddWords(own_x, weights, matrix, line);
    }
  }
  __device__ __forceinline__ void AddWords(const T* own_x, const W* weights, int matrix, int line) {
#pragma unroll
    for (int k = 0; k < 2; ++k) {  // 32 inputs each
      uint32_t x[4];
      LoadMatrices(x, SharedAddress(own_x + k * 32));
      const uint32_t low[4] = {x[0], 0, x[1], 0}, high[4] = {x[2], 0, x[3], 0};
#pragma unroll
      for (int t = 0; t < kRows / 8; ++t) {
        uint32_t w[4];
        LoadMatrices(w, SharedAddress(weights + (t * 8 + line) * kChunk + ((k * 4 + matrix) ^ line) * 8));
        MultiplyAdd(c[t], low, w[0], w[1], T());
        MultiplyAdd(c[t], high, w[2], w[3], T());
      }
    }
  }
  __device__ __forceinline__ void AddBytes(const T* own_x, const W* weights, int matrix, int line) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {  // 32 inputs each
      uint32_t x[4], w[4];
      LoadMatrices(x, SharedAddress(own_x + k * 32));
      LoadMatrices(w, SharedAddress(weights + (matrix % 2 * 8 + line) * kChunk + ((k * 2 + matrix / 2) ^ line) * 16));
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint32_t left[4] = {LowPair(w[2 * i], W(), T()), LowPair(w[2 * i + 1], W(), T()),
                                  HighPair(w[2 * i], W(), T()), HighPair(w[2 * i + 1], W(), T())};
        MultiplyAdd(c[i], left, x[2 * i], x[2 * i + 1], T());
      }
    }
  }
  /// Stores to [row of x][row of W].
  __device__ __forceinline__ void Store(float* to, int rows, int lane) {
    if constexpr (sizeof(W) == 1) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = lane % 4 * 2 + i % 2;
        if (row < rows) to[row * kRows + lane / 4 + i / 2 * 8] = c[0][i] + c[1][i];
      }
    } else if (lane / 4 < rows) {
#pragma unroll
      for (int t = 0; t < kRows / 8; ++t) {
        *reinterpret_cast<float2*>(to + lane / 4 * kRows + t * 8 + lane % 4 * 2) = float2{c[t][0], c[t][1]};
      }
    }
  }
};

template <class T, class W, bool kNorm, bool kGateUp, int kParts>
__global__ void __launch_bounds__(kBlockThreads, kBlocksPerProcessor) GemvKernel(GemmParams a) {
  constexpr int kRows = kUnitRows<W, kGateUp>, kOutputs = kTileOutputs<W, kGateUp>;
  constexpr int kStages = kGemvStages<W, kGateUp, kLargeConfig>;
  using Stream = WeightStream<W, kGateUp, kStages, kParts>;
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ float shared_sums[kWarps];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  W* stages = reinterpret_cast<W*>(shared) + warp * kStages * Stream::kStage;
  T* shared_x = reinterpret_cast<T*>(shared + kStages * kWarps * kUnitBytes<W, kGateUp>);
  float* sums = reinterpret_cast<float*>(shared_x + a.rows * a.x_shared_stride);

  const int all = kGateUp ? a.total / 2 : a.total;
  const int tiles = (all + kOutputs - 1) / kOutputs, chunks = (a.k + Stream::kChunk - 1) / Stream::kChunk;
  // At once: the next kernel prefetches its weights. Two blocks already fill an SM, so its blocks do not take their
  // place.
  TriggerProgrammaticLaunch();
  NormVectors<kNormVectors> vectors;
  if constexpr (kNorm) vectors.Load(a.norm_weight, a.norm_bias, a.k, a.layer_norm);
  Stream stream(a, tiles, chunks, stages);
  for (int n = 0; n < kStages - 1; ++n) stream.Fetch();  // weights need not wait for the preceding kernel
  GridDependencySync();
  if constexpr (kNorm) {
    for (int r = 0; r < a.rows; ++r) {  // zero padding up to a whole K tile
      for (int c = a.k + threadIdx.x; c < a.x_shared_stride; c += kBlockThreads) {
        shared_x[r * a.x_shared_stride + c] = FromFloat<T>(0);
      }
    }
    NormToShared<T>(a, vectors, shared_x, shared_sums);
  } else {
    RowsToShared<T, W>(a, shared_x);
  }

  const int matrix = lane / 8, line = lane % 8;
  const T* own_x = shared_x + min(line, a.rows - 1) * a.x_shared_stride + matrix * 8;
  int stage = 0;
  const WarpSchedule<kParts> schedule;
  for (int tile = schedule.first_tile, iteration = 0; tile < tiles; tile += schedule.step, ++iteration) {
    TileSums<T, W, kGateUp> tile_sums;
    TileResult own;
    if (kParts == 1 || iteration % kWarps == warp) own = TileResult::Fetch<kOutputs, kGateUp>(a, tile, lane, all);
    for (int chunk = schedule.part; chunk < chunks; chunk += kParts) {
      WaitForCopies<kStages - 2>();
      __syncwarp();
      stream.Fetch();
      const W* weights = stages + stage * Stream::kStage;
      stage = stage + 1 == kStages ? 0 : stage + 1;
      tile_sums.Add(own_x + chunk * Stream::kChunk, weights, matrix, line);
    }
    // Double-buffered sums: one barrier per tile.
    float* to = sums + iteration % 2 * kWarps * a.rows * kRows;
    tile_sums.Store(to + warp * a.rows * kRows, a.rows, lane);
    if constexpr (kParts == 1) {
      __syncwarp();
      FinishTile<T, W, kGateUp, 1>(a, to + warp * a.rows * kRows, tile, lane, own);
    } else {
      __syncthreads();
      if (iteration % kWarps == warp) FinishTile<T, W, kGateUp, kParts>(a, to, tile, lane, own);
    }
  }
  WaitForCopies<0>();
}

template <class T, class W, bool kNorm, bool kGateUp>
void LaunchGemvKernel(const Launcher& on, const GemmParams& a, const LinearTile& tile) {
  const auto launch = [&](auto parts) {
    Launch(on, GemvKernel<T, W, kNorm, kGateUp, parts()>, Grid(tile.blocks), kBlockThreads, tile.shared_bytes, a);
  };
  tile.warps == 1 ? launch(std::integral_constant<int, 1>()) : launch(std::integral_constant<int, kWarps>());
}

template <class T, class W>
void LaunchGemvOfTypes(const Launcher& on, const GemmArgs& args, const LinearTile& tile) {
  const GemmParams a = ToGemvParams(args, kGemvKTile<W>);
  if (args.epilogue == LinearEpilogue::kSiluMultiply) {
    return args.norm ? LaunchGemvKernel<T, W, true, true>(on, a, tile)
                     : LaunchGemvKernel<T, W, false, true>(on, a, tile);
  }
  return args.norm ? LaunchGemvKernel<T, W, true, false>(on, a, tile)
                   : LaunchGemvKernel<T, W, false, false>(on, a, tile);
}

}  // namespace ringside::cuda
