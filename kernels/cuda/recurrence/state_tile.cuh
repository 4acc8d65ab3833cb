// A value head's rows in a block, or a slice of its value channels (kernels/recurrence.h): the boundary state in
// registers, 16 key channels of four value channels per thread, the chunk's keys and updates in shared memory. Every
// result is summed in one order, whatever the rows of the step: over the state in parts of 16 key channels, over the
// rows in parts of 8, then over the parts. Included by .cu files only.
#pragma once

#include <utility>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/recurrence/tail_rows.cuh"

namespace ringside::cuda {

constexpr int kPart = 16;    // key channels of a thread
constexpr int kRowPart = 8;  // rows of a partial sum

/// Sizes of a block, and the layout of its shared memory in floats.
struct StateTile {
  int slice = 0;  // value channels
  int rows = 0, state_rows = 0;
  int parts = 0, lanes = 0;  // thread = part * lanes + lane
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
};

__device__ __forceinline__ float4 FusedMultiplyAdd(float4 x, float factor, float4 sum) {
  return {fmaf(x.x, factor, sum.x), fmaf(x.y, factor, sum.y), fmaf(x.z, factor, sum.z), fmaf(x.w, factor, sum.w)};
}

__device__ __forceinline__ StateBlock BlockOf(const RecurrencePlan& a, const StateTile& t) {
  StateBlock b;
  const int slices = (a.value_size + t.slice - 1) / t.slice;
  b.s = a.parts[blockIdx.y];
  b.head = static_cast<int>(blockIdx.x) / slices;
  b.key_head = KeyHeadOf(a, b.head);
  b.column = static_cast<int>(blockIdx.x) % slices * t.slice;
  b.width = min(t.slice, a.value_size - b.column);
  b.first_of_head = b.column == 0;
  const bool first = a.alternates != 0 ? b.head < a.key_heads : b.head % (a.value_heads / a.key_heads) == 0;
  b.first_of_key = b.first_of_head && first;
  b.part = static_cast<int>(threadIdx.x) / t.lanes, b.lane = static_cast<int>(threadIdx.x) % t.lanes;
  b.active = b.part < t.parts && 4 * b.lane < b.width;
  return b;
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
  for (int n = threadIdx.x; n < count * 2 * b.width; n += blockDim.x) {
    const int r = n / (2 * b.width), kind = n / b.width % 2, c = n % b.width;
    const float* from = partial + (r * t.parts * 2 + kind) * t.slice + c;
    float sum = 0;
    for (int part = 0; part < t.parts; ++part) sum += from[part * 2 * t.slice];
    to[(kind * t.rows + r) * t.slice + c] = sum;
  }
}

/// The sums over the rows before `row` in its u and o, in parts: [row parts][2][slice].
__device__ __forceinline__ void SumUpdates(const RecurrencePlan& a, const StateTile& t, const StateBlock& b, int row,
                                           const float* by_key, const float* by_query, float* shared) {
  const int row_parts = (row + kRowPart - 1) / kRowPart;
  for (int part = b.active ? b.part : row_parts; part < row_parts; part += t.parts) {
    float4 in_update{}, in_result{};
    for (int i = part * kRowPart; i < min((part + 1) * kRowPart, row); ++i) {
      const float4 u = *reinterpret_cast<const float4*>(shared + t.updates + i * t.slice + 4 * b.lane);
      if (a.corrects != 0) in_update = FusedMultiplyAdd(u, by_key[i], in_update);
      in_result = FusedMultiplyAdd(u, by_query[i], in_result);
    }
    float* to = shared + t.row_partial + part * 2 * t.slice + 4 * b.lane;
    *reinterpret_cast<float4*>(to) = in_update;
    *reinterpret_cast<float4*>(to + t.slice) = in_result;
  }
}

/// u and o of row r of a tile, which is `row` of its chunk and `step_row` of the step.
/// REQUIRES: its SumUpdates and SumStateParts.
__device__ __forceinline__ void FinishRow(const RecurrencePlan& a, const StateTile& t, const StateBlock& b, int r,
                                          int row, int64_t step_row, bool in_tail, float* shared) {
  const int row_parts = (row + kRowPart - 1) / kRowPart;
  const float decay = shared[t.factors + r], weight = shared[t.factors + t.rows + r],
              own = shared[t.weights + (t.rows + r) * kStateChunk + row];
  for (int c = threadIdx.x; c < b.width; c += blockDim.x) {
    const float value = shared[t.values + r * t.slice + c];
    const float* from_state = shared + t.from_state + r * t.slice + c;
    const float* sums = shared + t.row_partial + c;
    float u = a.corrects != 0 ? fmaf(-decay, from_state[0], value) : value;
    float o = decay * from_state[t.rows * t.slice];
    for (int part = 0; part < row_parts; ++part) u -= sums[part * 2 * t.slice], o += sums[(part * 2 + 1) * t.slice];
    u *= weight;
    o = fmaf(own, u, o);
    if (a.skip != nullptr) o = fmaf(a.skip[b.head], value, o);
    const int column = b.head * a.value_size + b.column + c;
    shared[t.updates + row * t.slice + c] = u;
    StoreElement(a.out.data, a.out.dtype, step_row * a.out.stride + column, o);
    if (in_tail) TailRow(a, b.s, row)[a.update_in_row + column] = u;
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
  t.partial = place(state_rows * t.parts * 2 * slice);
  t.row_partial = place(kStateChunk / kRowPart * 2 * slice);
  return t;
}

}  // namespace ringside::cuda
