// Rows of x routed to an expert with block-quantized weights, in shared memory, and a warp's accumulators
// (tiled_experts.cu): up to 4 rows as integers, or up to 16 rows as 16-bit floats. Included by it only.
#pragma once

#include "kernels/cuda/experts/experts_selection.h"
#include "kernels/cuda/experts/tile_segments.cuh"
#include "kernels/cuda/linear/gemv_quantized/k_tile_products.cuh"

namespace ringside::cuda {

/// The inputs of a segment's rows.
template <class T>
struct SegmentInputs {
  int k, rows;
  const T* x;
  int64_t x_stride;
  const int32_t* row_at;
};
template <class T>
__device__ __forceinline__ const T* InputRow(const SegmentInputs<T>& from, int row) {
  return from.x + from.row_at[row] * from.x_stride;
}

/// Kernel path for up to 4 rows as 16-bit integers (k_tile_products.cuh), which takes the fewest operations.
struct IntegerPath {
  static constexpr int kThreads = kIntegerPath.threads, kBlocks = kIntegerPath.blocks;
  static constexpr int kMaxSplitParts = kIntegerPath.max_split_parts, kRoundUnits = kIntegerPath.round_parts;
  template <int kBits>
  static constexpr bool kTakes = kTakesIntegers<kBits>;

  template <class T, int kBits, int kCount>
  using Sums = IntegerSums<kBits, kCount>;
  /// Loads the rows; returns a lane's addresses.
  template <class T, int kBits, int kCount>
  static __device__ __forceinline__ typename Sums<T, kBits, kCount>::Places Load(const SegmentInputs<T>& from,
                                                                                 unsigned char* to, int x_stride,
                                                                                 const void* zeros, uint32_t ring) {
    const IntegerRows<kBits> rows(from.rows, x_stride, to, reinterpret_cast<float*>(to + from.rows * x_stride * 2));
    const IntegerInputs<T, kBits, kCount, SegmentInputs<T>> inputs(from, rows);
    inputs.Load();
    return {from.rows, rows, zeros, ring};
  }
  /// Calls body with the number of rows that the accumulators are specialized for.
  template <class Body>
  static __device__ __forceinline__ void WithCount(int rows, const Body& body) {
    if (rows == 1) return body(std::integral_constant<int, 1>());
    if (rows == 2) return body(std::integral_constant<int, 2>());
    body(std::integral_constant<int, 4>());
  }
};

/// As IntegerSums, of whole tiles.
template <class T, int kBits, int kRows>
struct WholeIntegerSums : IntegerSums<kBits, kRows> {
  /// As ValueSums::Finish.
  template <bool kIn>
  __device__ __forceinline__ void Finish(const ExpertsCall& a, const Segment& segment, int tile,
                                         const float* units) const {
    const ExpertProduct<T, kIn> product(a, segment.rows, segment.expert);
    const int lane = threadIdx.x % 32, at = lane / 4, output = segment.first_output + tile * kTileOutputs<kIn> + at;
    const float first = this->Total(0) * units[tile * kNTileRows + at],
                second = this->Total(1) * units[tile * kNTileRows + kTileRows + at];
    const int row = this->RowOf(lane);
    if (row >= segment.rows.count || !this->IsFirst(lane)) return;
    const int target = segment.target[row];
    if (output < segment.outputs) product.Store(target, output, first, second);
    if (!kIn && output + kTileRows < segment.outputs) product.Store(target, output + kTileRows, second, 0);
  }
};

/// As IntegerPath, if there are enough tiles for each to be computed by a single warp.
struct WholeIntegerPath : IntegerPath {
  static constexpr int kMaxSplitParts = kWholeIntegerPath.max_split_parts, kRoundUnits = kWholeIntegerPath.round_parts;
  template <class T, int kBits, int kCount>
  using Sums = WholeIntegerSums<T, kBits, kCount>;
};

/// A warp's accumulators of two tiles times up to 8 kSets rows of x; weights are dequantized to T.
template <class T, int kBits, int kSets>
struct ValueSums {
  using Tile = TileOf<kBits>;
  float c[kSets][4] = {};

  /// A lane's addresses of x for LoadMatrices.
  struct Places {
    uint32_t x[kSets];
    __device__ __forceinline__ Places(int rows, const void* shared_x, int x_stride) {
      const int lane = threadIdx.x % 32;
#pragma unroll
      for (int n = 0; n < kSets; ++n) {
        const int row = min(n * 8 + lane % 8, rows - 1);
        x[n] = SharedAddress(shared_x) + (row * x_stride + lane / 8 * 8) * static_cast<int>(sizeof(T));
        asm volatile("" : "+r"(x[n]));
      }
    }
  };

  /// Accumulates the n-th K tile, whose weights are at byte offset `tiles` from the first stage.
  __device__ __forceinline__ void Add(int n, const Places& own, const LanePositions<kBits>& places, uint32_t tiles) {
#pragma unroll 1
    for (int chunk = 0; chunk < kKTileChunks; ++chunk) {
      LaneTile<kBits> both[2];
      both[0].table = both[1].table = places.table;
#pragma unroll
      for (int t = 0; t < 2; ++t) places.LoadWithScales(&both[t], tiles, chunk, t);
      float of_tile[kSets][4] = {};  // E4M3: sums in units of the tile's scale
      float(&sums)[kSets][4] = Tile::kHasTileScale ? of_tile : c;
      const int inputs = (n * kKTileInputs + chunk * kTileInputs) * static_cast<int>(sizeof(T));
#pragma unroll
      for (int g = 0; g < kTileGroups; ++g) {
        uint32_t x[kSets][4];
#pragma unroll
        for (int s = 0; s < kSets; ++s) LoadMatrices(x[s], own.x[s] + inputs + g * 64);
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const auto a = both[0].template ScaleInType<T>(g, h), b = both[1].template ScaleInType<T>(g, h);
          const uint32_t left[4] = {both[0].template Rounded<T>(g, 2 * h, a), both[1].template Rounded<T>(g, 2 * h, b),
                                    both[0].template Rounded<T>(g, 2 * h + 1, a),
                                    both[1].template Rounded<T>(g, 2 * h + 1, b)};
#pragma unroll
          for (int s = 0; s < kSets; ++s) MultiplyAdd(sums[s], left, x[s][2 * h], x[s][2 * h + 1], T());
        }
      }
      if constexpr (Tile::kHasTileScale) {
#pragma unroll
        for (int s = 0; s < kSets; ++s) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            c[s][i] = fmaf(both[i / 2].template Scale<T>(0, 0).scale, of_tile[s][i], c[s][i]);
          }
        }
      }
    }
  }
  /// Epilogue of a segment's tile.
  /// REQUIRES: all inputs have been accumulated; `units` as loaded by FetchUnits.
  template <bool kIn>
  __device__ __forceinline__ void Finish(const ExpertsCall& a, const Segment& segment, int tile,
                                         const float* units) const {
    const ExpertProduct<T, kIn> product(a, segment.rows, segment.expert);
    const int lane = threadIdx.x % 32, at = lane / 4, output = segment.first_output + tile * kTileOutputs<kIn> + at;
    const float first = units[tile * kNTileRows + at], second = units[tile * kNTileRows + kTileRows + at];
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int row = s * 8 + lane % 4 * 2 + i;
        if (row >= segment.rows.count) continue;
        const int target = segment.target[row];
        if (output < segment.outputs) product.Store(target, output, c[s][i] * first, c[s][2 + i] * second);
        if (!kIn && output + kTileRows < segment.outputs) {
          product.Store(target, output + kTileRows, c[s][2 + i] * second, 0);
        }
      }
    }
  }
  /// Stores to [row of x][row of W].
  __device__ __forceinline__ void Store(float* to, int rows, int lane) const {
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = s * 8 + lane % 4 * 2 + i % 2;
        if (row < rows) to[row * kNTileRows + lane / 4 + i / 2 * 8] = c[s][i];
      }
    }
  }
};

/// Kernel path for up to 16 rows, unconverted.
struct FloatPath {
  static constexpr int kThreads = kFloatPath.threads, kBlocks = kFloatPath.blocks;
  static constexpr int kMaxSplitParts = kFloatPath.max_split_parts, kRoundUnits = kFloatPath.round_parts;
  template <int kBits>
  static constexpr bool kTakes = true;

  template <class T, int kBits, int kCount>
  using Sums = ValueSums<T, kBits, kCount / 8>;
  template <class T, int kBits, int kCount>
  static __device__ __forceinline__ typename Sums<T, kBits, kCount>::Places Load(const SegmentInputs<T>& from,
                                                                                 unsigned char* to, int x_stride,
                                                                                 const void*, uint32_t) {
    const int pieces = (from.k + kKTileInputs - 1) / kKTileInputs * (kKTileInputs / 8);  // per row, 16 bytes each
#pragma unroll 4
    for (int i = threadIdx.x; i < from.rows * pieces; i += kThreads) {
      const int row = i / pieces, piece = i - row * pieces;
      const T* x = InputRow<T>(from, row) + piece * 8;
      *reinterpret_cast<uint4*>(to + (row * x_stride + piece * 8) * static_cast<int>(sizeof(T))) =
          piece * 8 < from.k ? *reinterpret_cast<const uint4*>(x) : uint4{0, 0, 0, 0};
    }
    __syncthreads();
    return {from.rows, to, x_stride};
  }
  template <class Body>
  static __device__ __forceinline__ void WithCount(int rows, const Body& body) {
    if (rows <= 8) return body(std::integral_constant<int, 8>());
    body(std::integral_constant<int, 16>());
  }
};

/// As FloatPath, if there are enough tiles for each to be computed by a single warp.
struct WholeTilePath : FloatPath {
  static constexpr int kMaxSplitParts = kWholeTilePath.max_split_parts, kRoundUnits = kWholeTilePath.round_parts;
};

}  // namespace ringside::cuda
