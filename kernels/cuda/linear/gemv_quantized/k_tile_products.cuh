// Multiplies block-quantized weights by rows of x (block_quant_gemv.cuh, experts). Included by .cu files only.
#pragma once

#include <type_traits>

#include "kernels/cuda/linear/gemv_epilogue.cuh"
#include "kernels/cuda/linear/gemv_quantized/integer_inputs.cuh"
#include "kernels/cuda/linear/gemv_quantized/k_tile_stream.cuh"

namespace ringside::cuda {

/// Shared-memory addresses of a lane's part of a K tile, kept in registers instead of recomputed for every load.
template <int kBits>
struct LanePositions {
  using Tile = TileOf<kBits>;
  uint32_t low, pairs, singles, scales;
  CodeTable<kBits> table;

  __device__ __forceinline__ explicit LanePositions(uint32_t ring) {
    const int lane = threadIdx.x % 32;
    low = ring + lane * 16;
    pairs = ring + Tile::kPairs + lane * 8;
    singles = ring + Tile::kSingles + lane * 4;
    scales = ring + (Tile::kHasTileScale ? kKTileScales<kBits> : Tile::kScales + lane / 4 * Tile::kRowScales);
    if constexpr (kBits >= 4) asm volatile("" : "+r"(low));
    if constexpr (Tile::kHasPair) asm volatile("" : "+r"(pairs));
    if constexpr (Tile::kHasSingle) asm volatile("" : "+r"(singles));
    asm volatile("" : "+r"(scales));
    table.Hold();
  }
  /// Loads the integers.
  __device__ __forceinline__ void Load(LaneTile<kBits>* tile, uint32_t at) const {
    if constexpr (kBits >= 4) LoadSharedVec4(tile->low, low + at);
    if constexpr (Tile::kHasBytes) LoadSharedVec4(tile->low + 4, low + at + 512);
    if constexpr (Tile::kHasPair) LoadSharedVec2(tile->pairs, pairs + at);
    if constexpr (Tile::kHasSingle) tile->singles = LoadSharedWord(singles + at);
  }
  /// Loads tile t of half `chunk` of the K tile at byte offset `at`, with all scales of the lane's row.
  __device__ __forceinline__ void LoadWithScales(LaneTile<kBits>* tile, uint32_t at, int chunk, int t) const {
    const uint32_t own = at + chunk * kTilePairBytes<kBits> + t * Tile::kBytes;
    Load(tile, own);
    if constexpr (Tile::kHasTileScale) {
      constexpr int kFloat = static_cast<int>(sizeof(float));
      tile->scales[0] = LoadSharedWord(scales + at + (t * kTileScaleFloats + chunk) * kFloat);
    } else if constexpr (Tile::kRowScales == 8) {
      LoadSharedVec2(tile->scales, scales + own);
    } else {
#pragma unroll
      for (int i = 0; i < Tile::kRowScales; i += 16) LoadSharedVec4(tile->scales + i / 4, scales + own + i);
    }
  }
};

/// A warp's accumulators of two tiles of 8-bit weights times up to 4 rows of x. W is the left operand; x is repeated to
/// fill 8 columns. Two independent accumulation chains.
template <class T, int kBits>
struct ByteSums {
  float c[2][4] = {};

  /// A lane's address of x for LoadMatrices.
  struct Places {
    uint32_t x;
    __device__ __forceinline__ Places(const GemmParams& a, const T* shared_x) {
      const int lane = threadIdx.x % 32;
      x = SharedAddress(shared_x + min(lane % 8, a.rows - 1) * a.x_shared_stride + lane / 8 * 8);
      asm volatile("" : "+r"(x));
    }
  };

  /// Accumulates the n-th K tile, whose weights are at byte offset `tiles` from the first stage.
  __device__ __forceinline__ void Add(int n, const Places& own, const LanePositions<kBits>& places, uint32_t tiles) {
#pragma unroll
    for (int chunk = 0; chunk < kKTileChunks; ++chunk) {
      LaneTile<kBits> both[2];
#pragma unroll
      for (int t = 0; t < 2; ++t) places.LoadWithScales(&both[t], tiles, chunk, t);
      AddChunk(both[0], both[1], own.x + (n * kKTileInputs + chunk * kTileInputs) * static_cast<int>(sizeof(T)));
    }
  }
  /// Stores to [row of x][row of W].
  __device__ __forceinline__ void Store(float* to, int rows, int lane) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = lane % 4 * 2 + i % 2;
      if (row < rows) to[row * kNTileRows + lane / 4 + i / 2 * 8] = c[0][i] + c[1][i];
    }
  }

 private:
  __device__ __forceinline__ void AddChunk(const LaneTile<kBits>& first, const LaneTile<kBits>& second,
                                           uint32_t x_address) {
#pragma unroll
    for (int g = 0; g < kTileGroups; ++g) {
      uint32_t x[4];
      LoadMatrices(x, x_address + g * 64);
      float products[4] = {};
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const uint32_t left[4] = {first.template Pair<T>(g, 2 * h), second.template Pair<T>(g, 2 * h),
                                  first.template Pair<T>(g, 2 * h + 1), second.template Pair<T>(g, 2 * h + 1)};
        MultiplyAdd(products, left, x[2 * h], x[2 * h + 1], T());
      }
      const float scales[2] = {first.template Scale<T>(g, 0).scale, second.template Scale<T>(g, 0).scale};
#pragma unroll
      for (int i = 0; i < 4; ++i) c[g % 2][i] = fmaf(scales[i / 2], products[i], c[g % 2][i]);
    }
  }
};

/// A warp's accumulators of two tiles of weights with fewer than 8 bits times 1, 2 or up to 4 rows of x, in integer
/// arithmetic. The right operand has a column per row and input group, with zeros where the inputs belong to another
/// group. So one MMA yields separate sums per group, ready to be scaled; a lane holds two groups of one row, and no
/// lane repeats another's work. The columns of a row's groups precede those of the next row.
template <int kBits, int kRows>
struct IntegerSums {
  using Tile = TileOf<kBits>;
  static constexpr int kGroups = kKTileChunks * kTileGroups;  // groups per K tile
  static constexpr int kRowColumns = 8 / kRows, kSets = kGroups / kRowColumns;
  static constexpr int kHalves = Tile::kHalves;
  static_assert(kGroups == 8 && kTilePairBytes<kBits> % 16 == 0);
  float sums[2][kSets] = {};  // [tile][set of columns]: sums of the lane's row over its two groups

  /// Shared-memory addresses of a lane's inputs and scales; kInputGroupBytes of zeros per group replace the inputs of
  /// other groups.
  struct Places {
    uint32_t x, zeros, sums, units, scales;
    uint32_t there[kRowColumns];  // whether the lane's column belongs to group i of a set

    __device__ __forceinline__ Places(int rows, const IntegerRows<kBits>& from, const void* zero_bytes, uint32_t ring) {
      const int lane = threadIdx.x % 32, column = lane % 8, row = column / kRowColumns, two = lane % 4;
      zeros = SharedAddress(zero_bytes);
      x = SharedAddress(from.bytes) + min(row, rows - 1) * from.row_bytes + lane / 8 * 16 - zeros;
      for (int i = 0; i < kRowColumns; ++i) there[i] = row < rows && column % kRowColumns == i ? 1 : 0;
      const int sum_row = min(two * 2 / kRowColumns, rows - 1), pair = two % (kRowColumns / 2);
      sums = SharedAddress(from.sums + sum_row * from.row_sums() + pair * 2 * kHalves);
      units = SharedAddress(from.units + sum_row * from.groups + pair * 2);
      scales = ring + Tile::kScales + lane / 4 * Tile::kRowScales + ScalesOf(pair);
      asm volatile("" : "+r"(x), "+r"(zeros), "+r"(sums), "+r"(units), "+r"(scales));
      for (uint32_t& one : there) asm volatile("" : "+r"(one));
    }
  };

  /// Accumulates the n-th K tile, whose weights are at byte offset `tiles` from the first stage.
  __device__ __forceinline__ void Add(int n, const Places& own, const LanePositions<kBits>& places, uint32_t tiles) {
    LaneTile<kBits> first, second;
    first.table = second.table = places.table;
    const uint32_t x_address = own.x + n * (kGroups * kInputGroupBytes);
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
      int32_t c[2][kHalves][4] = {};  // [high or low bytes of x]
#pragma unroll
      for (int i = 0; i < kRowColumns; ++i) {
        const int g = s * kRowColumns + i, chunk = g / kTileGroups;
        if (g % kTileGroups == 0) {
          places.Load(&first, tiles + chunk * kTilePairBytes<kBits>);
          places.Load(&second, tiles + chunk * kTilePairBytes<kBits> + Tile::kBytes);
        }
        uint32_t x[4];
        LoadMatrices(x, own.there[i] * x_address + own.zeros + g * kInputGroupBytes);
        AddProducts(c, first, second, g % kTileGroups, x);
      }
      AddSet(s, n, c, own, tiles);
    }
  }
  /// The row of x whose sums a lane returns, and whether it is the first lane that does.
  static __device__ __forceinline__ int RowOf(int lane) { return lane % 4 * 2 / kRowColumns; }
  static __device__ __forceinline__ bool IsFirst(int lane) { return lane % (kRowColumns / 2) == 0; }
  /// The sum of row lane / 4 of tile t and the lane's row of x, reduced in the same order for any number of rows. All
  /// lanes must call it.
  __device__ __forceinline__ float Total(int t) const {
    if constexpr (kRows == 1) {
      const float sum = sums[t][0] + __shfl_xor_sync(0xffffffffu, sums[t][0], 1);
      return sum + __shfl_xor_sync(0xffffffffu, sum, 2);
    } else if constexpr (kRows == 2) {
      return (sums[t][0] + __shfl_xor_sync(0xffffffffu, sums[t][0], 1)) +
             (sums[t][1] + __shfl_xor_sync(0xffffffffu, sums[t][1], 1));
    } else {
      return (sums[t][0] + sums[t][1]) + (sums[t][2] + sums[t][3]);
    }
  }
  /// Stores to [row of x][row of W].
  __device__ __forceinline__ void Store(float* to, int rows, int lane) const {
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      const float sum = Total(t);
      if (RowOf(lane) < rows && IsFirst(lane)) to[RowOf(lane) * kNTileRows + lane / 4 + t * 8] = sum;
    }
  }

 private:
  /// Byte offset from a row's first scales in a K tile to those of its pair-th pair of groups.
  static __device__ __forceinline__ constexpr int ScalesOf(int pair) {
    return pair % 2 * (Tile::kRowScales / 2) + pair / 2 * kTilePairBytes<kBits>;
  }
  static __device__ __forceinline__ void AddProducts(int32_t (&c)[2][kHalves][4], const LaneTile<kBits>& first,
                                                     const LaneTile<kBits>& second, int g, const uint32_t (&x)[4]) {
    if constexpr (kHalves == 1) {
      const uint32_t left[4] = {first.Bytes(g, 0), second.Bytes(g, 0), first.Bytes(g, 1), second.Bytes(g, 1)};
      MultiplyAddBytes<true>(c[0][0], left, x[0], x[1]);
      MultiplyAddBytes<false>(c[1][0], left, x[2], x[3]);
    } else {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const uint32_t left[2] = {first.Bytes(g, h), second.Bytes(g, h)};
        MultiplyAddBytes<true>(c[0][h], left, x[h]);
        MultiplyAddBytes<false>(c[1][h], left, x[2 + h]);
      }
    }
  }
  /// Scales a set's integer sums and adds them to the accumulators.
  __device__ __forceinline__ void AddSet(int s, int n, const int32_t (&c)[2][kHalves][4], const Places& own,
                                         uint32_t tiles) {
    const int first = s * (kRowColumns / 2);  // pair of groups
    uint32_t inputs[2 * kHalves], units[2];
    const uint32_t sums_at = own.sums + (n * kGroups + first * 2) * (kHalves * static_cast<int>(sizeof(float)));
    if constexpr (kHalves == 2) {
      LoadSharedVec4(inputs, sums_at);
    } else {
      LoadSharedVec2(inputs, sums_at);
    }
    LoadSharedVec2(units, own.units + (n * kGroups + first * 2) * static_cast<int>(sizeof(float)));
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      constexpr int kWords = Tile::kRowScales / 8;  // scale words of two groups
      uint32_t words[kWords];
      const uint32_t words_at = own.scales + tiles + t * Tile::kBytes + ScalesOf(first);
      if constexpr (kWords == 4) {
        LoadSharedVec4(words, words_at);
      } else if constexpr (kWords == 2) {
        LoadSharedVec2(words, words_at);
      } else {
        words[0] = LoadSharedWord(words_at);
      }
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float unit = __uint_as_float(units[e]);
#pragma unroll
        for (int h = 0; h < kHalves; ++h) {
          const float product = unit * static_cast<float>(c[0][h][2 * t + e] * 256 + c[1][h][2 * t + e]);
          const float input = __uint_as_float(inputs[kHalves * e + h]);
          const int scale = e * kHalves + h;
          const float2 two = HalvesOf(words[Tile::kHasOffset ? scale : scale / 2]);
          if constexpr (Tile::kHasOffset) {
            sums[t][s] = fmaf(two.x, product, fmaf(two.y, input, sums[t][s]));
          } else {
            sums[t][s] = fmaf(scale % 2 == 0 ? two.x : two.y, product + input, sums[t][s]);
          }
        }
      }
    }
  }
};

template <class T, int kBits, int kRows>
using SumsOf = std::conditional_t<kTakesIntegers<kBits>, IntegerSums<kBits, kRows>, ByteSums<T, kBits>>;

}  // namespace ringside::cuda
