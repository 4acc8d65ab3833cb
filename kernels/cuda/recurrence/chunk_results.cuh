// Results and states of whole chunks in the registers of warps: all matrices are transposed, [value channels, rows] or
// [value channels, key channels], so that each result is the left operand of the next product. A warp has 16 value
// channels. Included by .cu files only.
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/cuda/recurrence/chunk_tiles.cuh"

namespace ringside::cuda {

constexpr int kRowTiles = kStateChunk / 8, kBlocks = kStateChunk / 16;
constexpr int kChunkSlice = 64;  // most value channels of a block

/// The value channels of a block and of a lane.
struct BlockChannels {
  int head, key_head;
  int first, slice;  // of the head
  int lane_channel;  // of the slice: the lane's first; its second is 8 further
};

/// Index of v of a block's channel in shared memory. Rows that a warp reads at once are in different banks.
__device__ __forceinline__ int ValueIndex(int row, int channel) {
  return row * kChunkSlice + (channel ^ row / 2 % 4 * 8);
}

/// The first row of a lane's elements in a chunk: accumulator n has rows LaneRow() + 8 n and the next.
__device__ __forceinline__ int LaneRow() { return static_cast<int>(threadIdx.x) % 4 * 2; }

/// Calls visit(address, n, i) for this lane's values in a boundary: element i of accumulator n of [value channels, key
/// channels].
template <int kKeys, class Visit>
__device__ __forceinline__ void EachStateValue(const RecurrencePlan& a, const BlockChannels& channels, float* boundary,
                                               const Visit& visit) {
  float* at =
      boundary + static_cast<int64_t>(channels.head) * kKeys * a.value_size + channels.first + channels.lane_channel;
#pragma unroll
  for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int c = 8 * n + static_cast<int>(threadIdx.x) % 4 * 2 + i % 2;
      visit(at + static_cast<int64_t>(c) * a.value_size + i / 2 * 8, n, i);
    }
  }
}

/// Calls visit(accumulator, i, row from LaneRow(), second value channel) for the lane's elements of [value channels,
/// rows].
template <class Visit>
__device__ __forceinline__ void EachElement(const Visit& visit) {
#pragma unroll
  for (int n = 0; n < kRowTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) visit(n, i, 8 * n + i % 2, i / 2);
  }
}

/// Stores the results value(accumulator, i) of a chunk's own rows, from this lane's first value channel on.
template <class T, class Value>
__device__ __forceinline__ void StoreResults(const Value& value, const ChunkRows& rows, T* to, int64_t stride) {
  const auto is_own = [&](int row) { return row >= rows.begin && row < rows.end; };
  to += LaneRow() * stride;
#pragma unroll
  for (int n = 0; n < kRowTiles; ++n, to += 8 * stride) {
    const int row = 8 * n + LaneRow();
    if (is_own(row)) to[0] = FromFloat<T>(value(n, 0)), to[8] = FromFloat<T>(value(n, 2));
    if (is_own(row + 1)) to[stride] = FromFloat<T>(value(n, 1)), to[stride + 8] = FromFloat<T>(value(n, 3));
  }
}

/// Stores a chunk's o(accumulator, i), and u in the tail if it is the run's last.
template <class Result, class Update>
__device__ __forceinline__ void StoreChunk(const RecurrencePlan& a, const StagedState& s, const BlockChannels& channels,
                                           const ChunkRows& rows, int chunk, const Result& o, const Update& u) {
  const int column = channels.head * a.value_size + channels.first + channels.lane_channel;
  const int64_t at = (s.first_row + chunk * kStateChunk - s.position % kStateChunk) * a.out.stride + column;
  if (a.out.dtype == DType::kF32) {
    StoreResults(o, rows, static_cast<float*>(a.out.data) + at, a.out.stride);
  } else if (a.out.dtype == DType::kF16) {
    StoreResults(o, rows, static_cast<__half*>(a.out.data) + at, a.out.stride);
  } else {
    StoreResults(o, rows, static_cast<__nv_bfloat16*>(a.out.data) + at, a.out.stride);
  }
  if (chunk + 1 == ChunksOf(s)) StoreResults(u, rows, TailRow(a, s, 0) + a.update_in_row + column, a.row_floats);
}

/// A block's chunks of a run, and the slots of its boundaries: between two ranges the state is kept where the last one
/// goes.
struct ChunkRun {
  StagedState s;
  int first, end;
  int from_slot, last_slot;

  __device__ __forceinline__ ChunkRun(const RecurrencePlan& a, const ChunkRange& range, int run)
      : s(a.runs[run]), first(range.first), end(min(range.first + range.count, ChunksOf(s))) {
    last_slot = s.writes > 0 ? a.writes[s.first_write + s.writes - 1].slot : -1;
    from_slot = first > 0 ? last_slot : s.slot;
  }
  /// The slot of the boundary after a chunk, or -1.
  __device__ __forceinline__ int SlotAfter(const RecurrencePlan& a, int chunk) const {
    return WrittenSlot(a, s, s.position - s.position % kStateChunk + (chunk + 1) * kStateChunk);
  }
};

}  // namespace ringside::cuda
