// Products of weights in tiles with rows of x (stream_grouped.cuh). Included by it only.
#pragma once

#include "kernels/cuda/linear/stream/portion_stream.cuh"
#include "kernels/cuda/linear/stream/stream_results.cuh"

namespace ringside::cuda {

/// Where a lane finds what it holds of a portion's tiles, in shared memory. Kept, not found again for every load.
template <int kBits>
struct LanePlaces {
  using Tile = TileOf<kBits>;
  uint32_t low, high, scales, offsets;

  __device__ __forceinline__ explicit LanePlaces(uint32_t ring) {
    const int lane = threadIdx.x % 32;
    low = ring + lane * 16;
    high = ring + Tile::kHigh + lane * (kBits == 5 ? 4 : 8);
    scales = ring + Tile::kScales + lane / 4 * Tile::kRowScales;
    offsets = ring + Tile::kScales + lane * 4;
    asm volatile("" : "+r"(low), "+r"(high), "+r"(scales), "+r"(offsets));
  }
  __device__ __forceinline__ void Load(LaneTile<kBits>* tile, uint32_t at) const {
    LoadSharedFour(tile->low, low + at);
    if constexpr (kBits == 8) LoadSharedFour(tile->low + 4, low + at + 512);
    if constexpr (kBits == 5) tile->high[0] = LoadSharedWord(high + at);
    if constexpr (kBits == 6) LoadSharedTwo(tile->high, high + at);
    if constexpr (kBits == 8) {
      LoadSharedTwo(tile->scales, scales + at);
    } else {
      LoadSharedFour(tile->scales, scales + at);
    }
  }
  /// The offsets of group lane % 4 of the lane's row: of 6 bits those of its halves, otherwise one twice.
  template <class T>
  __device__ __forceinline__ float2 Offsets(uint32_t at) const {
    return LaneTile<kBits>::template OffsetsOf<T>(HalvesOf(LoadSharedWord(offsets + at)));
  }
};

/// A warp's sums of two tiles: W on the left times x, as two chains.
template <class T, int kBits>
struct PortionSums {
  using W = Grouped<kBits>;
  static constexpr int kTileBytes = W::Tile::kBytes;
  float c[2][4] = {};
  // What offsets add to the two tiles of a lane's row, for each row of x: by every lane of a quad of its own groups.
  float offsets[kHasOffsets<W> ? 2 : 1][kHasOffsets<W> ? kMostStreamRows : 1] = {};

  /// Both tiles of a chunk of inputs, at `tiles` from the begin of the ring; x as LoadMatrices wants it of a lane.
  __device__ __forceinline__ void AddProducts(uint32_t x_address, const LanePlaces<kBits>& places, uint32_t tiles) {
    constexpr bool kHalves = kBits == 6;
    LaneTile<kBits> first, second;
    places.Load(&first, tiles);
    places.Load(&second, tiles + kTileBytes);
#pragma unroll
    for (int g = 0; g < kTileGroups; ++g) {
      uint32_t x[4];
      LoadMatrices(x, x_address + g * 64);
      float products[2][4] = {};  // of the halves, if they have their own scales
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const uint32_t left[4] = {first.template Pair<T>(g, 2 * h), second.template Pair<T>(g, 2 * h),
                                  first.template Pair<T>(g, 2 * h + 1), second.template Pair<T>(g, 2 * h + 1)};
        MultiplyAdd(products[kHalves ? h : 0], left, x[2 * h], x[2 * h + 1], T());
      }
#pragma unroll
      for (int h = 0; h < (kHalves ? 2 : 1); ++h) {
        const float scales[2] = {first.template Scale<T>(g, h).scale, second.template Scale<T>(g, h).scale};
#pragma unroll
        for (int i = 0; i < 4; ++i) c[g % 2][i] = fmaf(scales[i / 2], products[h][i], c[g % 2][i]);
      }
    }
  }
  /// What the offsets of a portion's tiles add; `input_sums`: of the first row of x, a lane's own of the first chunk,
  /// `row_bytes` from one row's to the next.
  __device__ __forceinline__ void AddOffsets(int rows, uint32_t input_sums, uint32_t row_bytes,
                                             const LanePlaces<kBits>& places, uint32_t tiles) {
    float2 own[kPortionChunks][2];
#pragma unroll
    for (int i = 0; i < 2 * kPortionChunks; ++i) {
      own[i / 2][i % 2] = places.template Offsets<T>(tiles + i * kTileBytes);
    }
#pragma unroll
    for (int r = 0; r < kMostStreamRows; ++r) {
      if (r >= rows) break;
#pragma unroll
      for (int chunk = 0; chunk < kPortionChunks; ++chunk) {
        const uint32_t from = input_sums + r * row_bytes + chunk * (kTileInputs / kSumInputs<kBits> * sizeof(float));
        uint32_t inputs[2];
        if constexpr (kBits == 6) {
          LoadSharedTwo(inputs, from);
        } else {
          inputs[0] = LoadSharedWord(from);
        }
#pragma unroll
        for (int t = 0; t < 2; ++t) {
          offsets[t][r] = fmaf(own[chunk][t].x, __uint_as_float(inputs[0]), offsets[t][r]);
          if constexpr (kBits == 6) offsets[t][r] = fmaf(own[chunk][t].y, __uint_as_float(inputs[1]), offsets[t][r]);
        }
      }
    }
  }
  /// Adds up what the lanes of a quad have of the offsets, and adds it to the sums.
  __device__ __forceinline__ void JoinOffsets(int rows, int lane) {
#pragma unroll
    for (int r = 0; r < kMostStreamRows; ++r) {
      if (r >= rows) break;
#pragma unroll
      for (int t = 0; t < 2; ++t) {
        float& sum = offsets[t][r];
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        if (lane % 4 == r / 2) c[0][t * 2 + r % 2] += sum;
      }
    }
  }
  /// To [row of x][row of W].
  __device__ __forceinline__ void Store(float* to, int rows, int lane) {
    if constexpr (kHasOffsets<W>) JoinOffsets(rows, lane);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = lane % 4 * 2 + i % 2;
      if (row < rows) to[row * kPortionRows + lane / 4 + i / 2 * 8] = c[0][i] + c[1][i];
    }
  }
};

}  // namespace ringside::cuda
