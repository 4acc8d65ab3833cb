// Tiles of whole chunks for tensor cores: float32 values as sums of two bfloat16, high + low, whose products are
// accumulated as high high + high low + low high; the error is about 2^-16 of a product. A tile is stored in panels of
// 64 columns, whose rows have 128 bytes in units of 16, unit p of row r at p ^ r % 8: LoadMatrices has no bank
// conflicts, and WGMMA can read it (its 128-byte swizzle). Included by .cu files only.
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/host_device.h"
#include "kernels/cuda/recurrence/tail_rows.cuh"

namespace ringside::cuda {

/// Bytes of one part, high or low, of a chunk's matrix between rows.
constexpr int kPairTileBytes = kStateChunk * kStateChunk * 2;
/// The matrices of a chunk and value head: the inverse that solves for u, high and low, and the factors of u in o.
constexpr int kChunkWeightBytes = 4 * kPairTileBytes;
/// Factors of a chunk's rows in float32, [3][kStateChunk]: e^G_t, b, e^(G_C - G_t).
constexpr int kChunkFactorBytes = 3 * kStateChunk * 4;

/// A chunk in scratch memory: weights and factors of each value head, then keys and queries of each key head, in two
/// parts each. With decays of key channels keys and queries are scaled by e^G_t; then follow the keys scaled by e^(G_C
/// - G_t) instead, in two parts, and e^G_C in float32.
struct ChunkImage {
  static constexpr int kHead = kChunkWeightBytes + (kChunkFactorBytes + 127) / 128 * 128;
  int key_head = 0;  // bytes
  int64_t bytes = 0;

  RINGSIDE_HOST_DEVICE explicit ChunkImage(const RecurrencePlan& a)
      : key_head((a.channel_decays != 0 ? 6 : 4) * kStateChunk * a.key_size * 2 +
                 (a.channel_decays != 0 ? a.key_size * 4 : 0)),
        bytes(int64_t{a.value_heads} * kHead + int64_t{a.key_heads} * key_head) {}
  RINGSIDE_HOST_DEVICE int64_t Head(int head) const { return int64_t{head} * kHead; }
  RINGSIDE_HOST_DEVICE int64_t Keys(const RecurrencePlan& a, int key) const {
    return int64_t{a.value_heads} * kHead + int64_t{key} * key_head;
  }
};

/// Byte offset of elements 8 p to 8 p + 7 of row r in a tile of `kCols` bfloat16 columns.
template <int kCols, int kRows = kStateChunk>
__device__ __forceinline__ uint32_t TileOffset(int row, int p) {
  static_assert(kCols % 64 == 0);
  return p / 8 * (kRows * 128) + row * 128 + (p % 8 ^ row % 8) * 16;
}

/// Two values as pairs of bfloat16.
struct SplitPair {
  uint32_t high, low;
};
__device__ __forceinline__ SplitPair Split(float x, float y) {
  const uint32_t high = Pack(x, y, __nv_bfloat16());
  const float x_high = __uint_as_float(high << 16), y_high = __uint_as_float(high & 0xffff0000u);
  return {high, Pack(x - x_high, y - y_high, __nv_bfloat16())};
}

/// A 16 x 16 operand in registers.
struct SplitOperand {
  uint32_t high[4], low[4];
};
/// The operand of two neighbouring accumulators.
__device__ __forceinline__ SplitOperand OperandOf(const float (&left)[4], const float (&right)[4]) {
  SplitOperand out;
  const SplitPair pairs[4] = {Split(left[0], left[1]), Split(left[2], left[3]), Split(right[0], right[1]),
                              Split(right[2], right[3])};
#pragma unroll
  for (int i = 0; i < 4; ++i) out.high[i] = pairs[i].high, out.low[i] = pairs[i].low;
  return out;
}

/// c += a b for two 16 x 8 results; `high` and `low` are the parts of b.
__device__ __forceinline__ void MultiplyAddSplit(float (&left)[4], float (&right)[4], const SplitOperand& a,
                                                 const uint32_t (&high)[4], const uint32_t (&low)[4]) {
  const __nv_bfloat16 type{};
  MultiplyAdd(left, a.high, high[0], high[1], type), MultiplyAdd(right, a.high, high[2], high[3], type);
  MultiplyAdd(left, a.high, low[0], low[1], type), MultiplyAdd(right, a.high, low[2], low[3], type);
  MultiplyAdd(left, a.low, high[0], high[1], type), MultiplyAdd(right, a.low, high[2], high[3], type);
}

/// The operand b of MultiplyAddSplit from rows [row, row + 16) of a tile, whose columns [16 k, 16 k + 16) are summed.
template <int kCols, int kRows = kStateChunk>
__device__ __forceinline__ void LoadRowOperand(uint32_t (&out)[4], uint32_t tile, int row, int k) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  LoadMatrices(out, tile + TileOffset<kCols, kRows>(row + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2));
}
/// As above from columns [16 c, 16 c + 16) of a tile, whose rows [row, row + 16) are summed.
template <int kCols>
__device__ __forceinline__ void LoadColumnOperand(uint32_t (&out)[4], uint32_t tile, int row, int c) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  LoadMatricesTransposed(out, tile + TileOffset<kCols>(row + lane % 16, 2 * c + lane / 16));
}
/// The operand a from rows [row, row + 16) and columns [16 k, 16 k + 16) of a tile.
template <int kCols, int kRows = kStateChunk>
__device__ __forceinline__ void LoadLeftOperand(uint32_t (&out)[4], uint32_t tile, int row, int k) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  LoadMatrices(out, tile + TileOffset<kCols, kRows>(row + lane % 16, 2 * k + lane / 16));
}

/// Rows of a run's chunk: [0, begin) in the tail, [begin, end) in the step; the others count as zeros without a decay.
struct ChunkRows {
  const float* mixed;  // row 0 of the chunk in RecurrencePlan::mixed, which may begin later
  const float* tail;
  int64_t stride, tail_stride;
  int begin, end;

  /// A valid row's values at these places.
  __device__ __forceinline__ const float* At(int row, int in_mixed, int in_tail) const {
    return row < begin ? tail + row * tail_stride + in_tail : mixed + row * stride + in_mixed;
  }
  /// Four values of a row; zeros if it is not valid.
  __device__ __forceinline__ float4 Load(int row, int in_mixed, int in_tail) const {
    return row < end ? *reinterpret_cast<const float4*>(At(row, in_mixed, in_tail)) : float4{0, 0, 0, 0};
  }
  /// As Load; zeros too for rows in the tail.
  __device__ __forceinline__ float4 LoadOwn(int row, int in_mixed) const {
    return row >= begin ? Load(row, in_mixed, 0) : float4{0, 0, 0, 0};
  }
};
__device__ __forceinline__ ChunkRows RowsOfChunk(const RecurrencePlan& a, const StagedState& run, int chunk) {
  const int offset = run.position % kStateChunk, before = chunk * kStateChunk - offset;
  return {
      MixedRow(a, run.first_row + before), TailRow(a, run, 0), a.mixed.stride, a.row_floats, chunk == 0 ? offset : 0,
      min(kStateChunk, run.rows - before)};
}
__device__ __forceinline__ int ChunksOf(const StagedState& run) {
  return (run.position % kStateChunk + run.rows + kStateChunk - 1) / kStateChunk;
}

__device__ __forceinline__ float4 ExpOfDifference(float4 x, float4 y) {
  return {__expf(x.x - y.x), __expf(x.y - y.y), __expf(x.z - y.z), __expf(x.w - y.w)};
}
__device__ __forceinline__ float4 Multiply(float4 x, float4 y) { return {x.x * y.x, x.y * y.y, x.z * y.z, x.w * y.w}; }

/// Stores a row's elements [4 i, 4 i + 4) in both parts of a tile.
template <int kCols, int kRows = kStateChunk>
__device__ __forceinline__ void StoreSplit(char* high, char* low, int row, int i, float4 x) {
  const SplitPair first = Split(x.x, x.y), second = Split(x.z, x.w);
  const uint32_t at = TileOffset<kCols, kRows>(row, i / 2) + i % 2 * 8;
  *reinterpret_cast<uint2*>(high + at) = {first.high, second.high};
  *reinterpret_cast<uint2*>(low + at) = {first.low, second.low};
}

}  // namespace ringside::cuda
