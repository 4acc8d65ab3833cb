// A value head's rows in a block, or a slice of its value channels (kernels/recurrence.h): the boundary state in
// registers, 16 key channels of four value channels per thread, the chunk's keys and updates in shared memory. Every
// result is summed in one order, whatever the rows of the step: over the state in parts of 16 key channels, over the
// rows in parts of 8, then over the parts. Included by .cu files only.
#pragma once

#include <algorithm>
#include <climits>
#include <utility>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/recurrence/tail_rows.cuh"

namespace ringside::cuda {

constexpr int kPart = 16;    // key channels of a thread
constexpr int kRowPart = 8;  // rows of a partial sum
constexpr int kRowParts = kStateChunk / kRowPart;
constexpr int kMostSlice = 64, kLeastSlice = 16;  // value channels of a block

/// Sizes of a block, and the layout of its shared memory in floats.
struct StateTile {
  int slice = 0;  // value channels
  int rows = 0, state_rows = 0;
  int parts = 0, lanes = 0;  // thread = part * lanes + lane
  int lanes_inverse = 0;     // x / lanes = x * lanes_inverse >> 16 for numbers of threads
  int key_stride = 0;
  int decays = 0, updates = 0, queries = 0, decayed = 0, values = 0, weights = 0, factors = 0, from_state = 0,
      partial = 0, row_partial = 0, floats = 0;

  size_t bytes() const { return static_cast<size_t>(floats) * sizeof(float); }
};

/// A block's part of the work.
struct StateBlock {
  StagedState s;
  int head, key_head;
  int column, width;   // value channels
  bool first_of_head;  // first slice
  bool first_of_key;   // first slice of the first value head with this key
  bool active;         // the thread has a part of the state
  int part, lane;
  int group, groups, channel;  // a group has a thread per value channel; set by SetGroup
};

__device__ __forceinline__ float4 FusedMultiplyAdd(float4 x, float factor, float4 sum) {
  return {fmaf(x.x, factor, sum.x), fmaf(x.y, factor, sum.y), fmaf(x.z, factor, sum.z), fmaf(x.w, factor, sum.w)};
}

__device__ __forceinline__ StateBlock BlockOf(const RecurrencePlan& a, const StateTile& t) {
  StateBlock b;
  b.s = a.parts[blockIdx.z];
  b.head = static_cast<int>(blockIdx.y);
  b.key_head = KeyHeadOf(a, b.head);
  b.column = static_cast<int>(blockIdx.x) * t.slice;
  b.width = min(t.slice, a.value_size - b.column);
  b.first_of_head = b.column == 0;
  const bool first = a.alternates != 0 ? b.head < a.key_heads : b.key_head * (a.value_heads / a.key_heads) == b.head;
  b.first_of_key = b.first_of_head && first;
  b.part = static_cast<int>(threadIdx.x) * t.lanes_inverse >> 16;
  b.lane = static_cast<int>(threadIdx.x) - b.part * t.lanes;
  b.active = b.part < t.parts && 4 * b.lane < b.width;
  return b;
}
/// Sets the thread's group.
__device__ __forceinline__ void SetGroup(StateBlock* b) {
  b->groups = static_cast<int>(blockDim.x) / b->width;
  b->group = static_cast<int>(threadIdx.x) / b->width, b->channel = static_cast<int>(threadIdx.x) % b->width;
  if (b->group >= b->groups) b->group = INT_MAX;  // a rest of the threads
}

/// Starts to copy rows of `n` floats to shared memory: a warp per row.
__device__ __forceinline__ void FetchRows(float* to, int to_stride, const float* from, int64_t from_stride, int rows,
                                          int n, bool aligned) {
  const int warps = static_cast<int>(blockDim.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int r = static_cast<int>(threadIdx.x) / 32; r < rows; r += warps) {
    float* at = to + r * to_stride;
    const float* source = from + r * from_stride;
    if (aligned) {
      for (int c = 4 * lane; c < n; c += 128) CopyAsync(SharedAddress(at + c), source + c);
    } else {
      for (int c = lane; c < n; c += 32) CopyFloatAsync(at + c, source + c);
    }
  }
}

/// Starts to copy the chunk's rows before the segment: their keys, G and u.
__device__ __forceinline__ void FetchTail(const RecurrencePlan& a, const StateTile& t, const StateBlock& b,
                                          float* shared) {
  const int rows = b.s.position % kStateChunk;
  const float* tail = TailRow(a, b.s, 0);
  const bool aligned = a.aligned != 0;
  FetchRows(shared, t.key_stride, tail + a.key_in_row + b.key_head * a.key_size, a.row_floats, rows, a.key_size,
            aligned);
  FetchRows(shared + t.updates, t.slice, tail + a.update_in_row + b.head * a.value_size + b.column, a.row_floats, rows,
            b.width, aligned);
  if (a.channel_decays != 0) {
    FetchRows(shared + t.decays, t.key_stride, tail + a.decay_in_row + b.key_head * a.key_size, a.row_floats, rows,
              a.key_size, aligned);
  } else {
    for (int r = threadIdx.x; r < rows; r += blockDim.x) {
      CopyFloatAsync(shared + t.decays + r, tail + r * static_cast<int64_t>(a.row_floats) + a.decay_in_row + b.head);
    }
  }
}

/// Zeroes the columns between a key and the next whole part.
__device__ __forceinline__ void ClearPadding(const RecurrencePlan& a, const StateTile& t, float* shared) {
  const int padding = t.parts * kPart - a.key_size;
  const auto clear = [&](float* matrix, int rows) {
    for (int i = threadIdx.x; i < rows * padding; i += blockDim.x) {
      matrix[i / padding * t.key_stride + a.key_size + i % padding] = 0;
    }
  };
  if (padding == 0) return;
  clear(shared, kStateChunk), clear(shared + t.queries, t.rows);
  if (a.channel_decays != 0) clear(shared + t.decays, kStateChunk), clear(shared + t.decayed, 2 * t.rows);
}

__device__ __forceinline__ void LoadState(const RecurrencePlan& a, const StateBlock& b, float4 (&state)[kPart]) {
  const float* from = b.s.slot < 0
                          ? nullptr
                          : BoundaryOf(a, b.s, b.s.slot) + static_cast<int64_t>(b.head) * a.key_size * a.value_size +
                                b.column + 4 * b.lane;
#pragma unroll
  for (int i = 0; i < kPart; ++i) {
    const int c = b.part * kPart + i;
    state[i] = from != nullptr && b.active && c < a.key_size
                   ? __ldcs(reinterpret_cast<const float4*>(from + static_cast<int64_t>(c) * a.value_size))
                   : float4{0, 0, 0, 0};
  }
}

/// S_0^T k and S_0^T q of a row, of the thread's key channels: [2][slice], four value channels of each per thread.
/// `key` and `query` begin at the thread's first channel.
__device__ __forceinline__ void MultiplyStatePart(const StateTile& t, const float4 (&state)[kPart], const float* key,
                                                  const float* query, float* to) {
  float4 by_key{}, by_query{};
#pragma unroll
  for (int i = 0; i < kPart; i += 4) {
    const float4 k = *reinterpret_cast<const float4*>(key + i), q = *reinterpret_cast<const float4*>(query + i);
    by_key = FusedMultiplyAdd(state[i], k.x, by_key), by_query = FusedMultiplyAdd(state[i], q.x, by_query);
    by_key = FusedMultiplyAdd(state[i + 1], k.y, by_key), by_query = FusedMultiplyAdd(state[i + 1], q.y, by_query);
    by_key = FusedMultiplyAdd(state[i + 2], k.z, by_key), by_query = FusedMultiplyAdd(state[i + 2], q.z, by_query);
    by_key = FusedMultiplyAdd(state[i + 3], k.w, by_key), by_query = FusedMultiplyAdd(state[i + 3], q.w, by_query);
  }
  *reinterpret_cast<float4*>(to) = by_key;
  *reinterpret_cast<float4*>(to + t.slice) = by_query;
}

/// Adds up `count` rows of [parts][2][slice] in order of the parts: [2][rows][slice].
__device__ __forceinline__ void SumStateParts(const StateTile& t, const StateBlock& b, const float* partial, int count,
                                              float* to) {
  for (int n = b.group; n < 2 * count; n += b.groups) {
    const int r = n / 2, kind = n % 2;
    const float* from = partial + (r * t.parts * 2 + kind) * t.slice + b.channel;
    float sum = 0;
    for (int part = 0; part < t.parts; ++part) sum += from[part * 2 * t.slice];
    to[(kind * t.rows + r) * t.slice + b.channel] = sum;
  }
}

/// The sums over the rows before `row` in u and o of rows [row, row + count), in parts: [count][row parts][2][slice].
/// `by_key` and `by_query` are the factors of the first row's updates, [rows][kStateChunk] each.
__device__ __forceinline__ void SumUpdates(const RecurrencePlan& a, const StateTile& t, const StateBlock& b, int row,
                                           int count, const float* by_key, const float* by_query, float* shared) {
  const int row_parts = (row + kRowPart - 1) / kRowPart;
  for (int part = b.active ? b.part : row_parts; part < row_parts; part += t.parts) {
    const int first = part * kRowPart, known = min(row - first, kRowPart);
    const float* updates = shared + t.updates + first * t.slice + 4 * b.lane;
    float4 u[kRowPart];
#pragma unroll
    for (int i = 0; i < kRowPart; ++i) {
      if (i < known) u[i] = *reinterpret_cast<const float4*>(updates + i * t.slice);
    }
    for (int r = 0; r < count; ++r) {
      float4 in_update{}, in_result{};
      const float *of_key = by_key + r * kStateChunk + first, *of_query = by_query + r * kStateChunk + first;
#pragma unroll
      for (int i = 0; i < kRowPart; ++i) {
        if (i >= known) break;
        if (a.corrects != 0) in_update = FusedMultiplyAdd(u[i], of_key[i], in_update);
        in_result = FusedMultiplyAdd(u[i], of_query[i], in_result);
      }
      float* to = shared + t.row_partial + (r * kRowParts + part) * 2 * t.slice + 4 * b.lane;
      *reinterpret_cast<float4*>(to) = in_update;
      *reinterpret_cast<float4*>(to + t.slice) = in_result;
    }
  }
}

/// Rows of a tile that are solved together, in one row part.
struct RowGroup {
  int first, count;  // in the tile
  int row;           // the first in the chunk
};

/// Calls add(sum) with the sums over the parts of the rows before the group's i-th row, in order. `kind`: in u or in o.
template <class Add>
__device__ __forceinline__ void EachPartSum(const StateTile& t, const RowGroup& group, int i, int c, int kind,
                                            const float* shared, const Add& add) {
  const float* sums = shared + t.row_partial + (i * kRowParts * 2 + kind) * t.slice + c;
  const float* weights = shared + t.weights + (kind * t.rows + group.first + i) * kStateChunk;
  const int row = group.row + i, parts = row / kRowPart;
  for (int part = 0; part < parts; ++part) add(sums[part * 2 * t.slice]);
  if (row % kRowPart == 0) return;
  float sum = group.row % kRowPart != 0 ? sums[parts * 2 * t.slice] : 0.0f;
  for (int n = group.row; n < row; ++n) sum = fmaf(shared[t.updates + n * t.slice + c], weights[n], sum);
  add(sum);
}

/// u of the group's rows, one after the other: a thread per value channel.
/// REQUIRES: their SumUpdates and SumStateParts.
__device__ __forceinline__ void SolveRows(const RecurrencePlan& a, const StateTile& t, const StateBlock& b,
                                          const RowGroup& group, float* shared) {
  if (b.group != 0) return;
  const int c = b.channel;
  for (int i = 0; i < group.count; ++i) {
    const int r = group.first + i;
    float u = shared[t.values + r * t.slice + c];
    if (a.corrects != 0) {
      u = fmaf(-shared[t.factors + r], shared[t.from_state + r * t.slice + c], u);
      EachPartSum(t, group, i, c, 0, shared, [&](float sum) { u -= sum; });
    }
    shared[t.updates + (group.row + i) * t.slice + c] = u * shared[t.factors + t.rows + r];
  }
}

/// Stores o of the group's rows, which begin at row `step_row` of the step, and u of the rows from `tail_from` on.
__device__ __forceinline__ void FinishRows(const RecurrencePlan& a, const StateTile& t, const StateBlock& b,
                                           const RowGroup& group, int64_t step_row, int tail_from,
                                           const float* shared) {
  const int c = b.channel, column = b.head * a.value_size + b.column + c;
  for (int i = b.group; i < group.count; i += b.groups) {
    const int r = group.first + i, row = group.row + i;
    const float u = shared[t.updates + row * t.slice + c];
    float o = shared[t.factors + r] * shared[t.from_state + (t.rows + r) * t.slice + c];
    EachPartSum(t, group, i, c, 1, shared, [&](float sum) { o += sum; });
    o = fmaf(shared[t.weights + (t.rows + r) * kStateChunk + row], u, o);
    if (a.skip != nullptr) o = fmaf(a.skip[b.head], shared[t.values + r * t.slice + c], o);
    StoreElement(a.out.data, a.out.dtype, (step_row + i) * a.out.stride + column, o);
    if (i >= tail_from) TailRow(a, b.s, row)[a.update_in_row + column] = u;
  }
}

/// state = the state after the chunk's last row; clobbers its keys.
__device__ __forceinline__ void FoldChunk(const RecurrencePlan& a, const StateTile& t, const StateBlock& b,
                                          float4 (&state)[kPart], float* shared) {
  const bool channels = a.channel_decays != 0;
  const int stride = channels ? t.key_stride : 1;
  const float *decays = shared + t.decays, *last = decays + (kStateChunk - 1) * stride;
  for (int n = threadIdx.x; n < kStateChunk * a.key_size; n += blockDim.x) {
    const int i = n / a.key_size, c = n % a.key_size, of = channels ? c : 0;
    shared[i * t.key_stride + c] *= expf(last[of] - decays[i * stride + of]);
  }
  __syncthreads();
  if (b.active) {
#pragma unroll
    for (int i = 0; i < kPart; ++i) {
      const float decay = expf(last[channels ? b.part * kPart + i : 0]);
      state[i] = {decay * state[i].x, decay * state[i].y, decay * state[i].z, decay * state[i].w};
    }
    for (int row = 0; row < kStateChunk; ++row) {
      const float4 u = *reinterpret_cast<const float4*>(shared + t.updates + row * t.slice + 4 * b.lane);
      const float* key = shared + row * t.key_stride + b.part * kPart;
#pragma unroll
      for (int i = 0; i < kPart; i += 4) {
        const float4 k = *reinterpret_cast<const float4*>(key + i);
        state[i] = FusedMultiplyAdd(u, k.x, state[i]), state[i + 1] = FusedMultiplyAdd(u, k.y, state[i + 1]);
        state[i + 2] = FusedMultiplyAdd(u, k.z, state[i + 2]), state[i + 3] = FusedMultiplyAdd(u, k.w, state[i + 3]);
      }
    }
  }
  __syncthreads();
}

__device__ __forceinline__ void StoreState(const RecurrencePlan& a, const StateBlock& b, const float4 (&state)[kPart],
                                           int slot) {
  float* to =
      BoundaryOf(a, b.s, slot) + static_cast<int64_t>(b.head) * a.key_size * a.value_size + b.column + 4 * b.lane;
#pragma unroll
  for (int i = 0; i < kPart; ++i) {
    const int c = b.part * kPart + i;
    if (b.active && c < a.key_size) *reinterpret_cast<float4*>(to + static_cast<int64_t>(c) * a.value_size) = state[i];
  }
}

inline StateTile TileOf(const RecurrencePlan& plan, int slice, int rows, int state_rows) {
  StateTile t{.slice = slice, .rows = rows, .state_rows = state_rows};
  t.parts = (plan.key_size + kPart - 1) / kPart, t.lanes = slice / 4;
  t.lanes_inverse = (65536 + t.lanes - 1) / t.lanes;
  t.key_stride = t.parts * kPart + 4;  // rows of a column of float4 are in different banks
  const bool channels = plan.channel_decays != 0;
  const auto place = [&](int floats) { return std::exchange(t.floats, t.floats + (floats + 3) / 4 * 4); };
  place(kStateChunk * t.key_stride);  // keys
  t.decays = place(kStateChunk * (channels ? t.key_stride : 1));
  t.updates = place(kStateChunk * slice);
  t.queries = place(rows * t.key_stride);
  t.decayed = place(channels ? 2 * rows * t.key_stride : 0);
  t.values = place(rows * slice);
  t.weights = place(2 * rows * kStateChunk);
  t.factors = place(2 * rows);
  t.from_state = place(2 * rows * slice);
  const int partial = state_rows * t.parts * 2 * slice, row_partial = std::min(rows, kRowPart) * kRowParts * 2 * slice;
  t.partial = place(rows == 1 ? partial : std::max(partial, row_partial));
  t.row_partial = rows == 1 ? place(row_partial) : t.partial;  // one after the other, except with a single row
  return t;
}

/// The blocks of all parts: slices, heads, parts.
inline dim3 StateGrid(const RecurrencePlan& plan, const StateTile& t) {
  return Grid((plan.value_size + t.slice - 1) / t.slice, plan.value_heads, plan.part_count);
}

/// The tile of up to `rows` rows, with `state_rows` rows multiplied by the state together. Its slice is the largest
/// that occupies the device and fits in shared memory.
inline StateTile TileFor(const Launcher& on, const RecurrencePlan& plan, int rows, int state_rows) {
  const auto half = [](int slice) { return (slice / 2 + 15) / 16 * 16; };
  const auto blocks = [&](int slice) {
    return int64_t{plan.value_heads} * plan.part_count * ((plan.value_size + slice - 1) / slice);
  };
  const auto fits = [&](int slice) {
    return TileOf(plan, slice, rows, std::min(rows, state_rows)).bytes() <= SharedBytes(on.large);
  };
  int slice = std::min(plan.value_size, kMostSlice);
  for (; !fits(kLeastSlice) && rows > 1;) rows /= 2;
  while (slice > kLeastSlice && (blocks(half(slice)) <= on.multiprocessors || !fits(slice))) slice = half(slice);
  CHECK(fits(slice));
  return TileOf(plan, slice, rows, std::min(rows, state_rows));
}

}  // namespace ringside::cuda
