// The state of a recurrent mixer in float32 (kernels/recurrence.h): a block computes a value head's rows of one
// segment, or a slice of its value channels. It holds the boundary state in registers, 16 key channels of four value
// channels per thread, and the chunk's keys and updates in shared memory. Every result is summed in one order, whatever
// the rows of the step: over the state in parts of 16 key channels, over the rows in parts of 8, then over the parts.
#include <algorithm>
#include <climits>
#include <utility>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/recurrence/tail_rows.cuh"

namespace ringside::cuda {
namespace {

constexpr int kPart = 16;       // key channels of a thread
constexpr int kRowPart = 8;     // rows of a partial sum
constexpr int kMaxSlice = 128;  // value channels of a block
constexpr int kMaxThreads = RecurrenceShape::kMaxSize / kPart * kMaxSlice / 4;
constexpr int kTileRows = 16, kStateRows = 4;  // rows of a tile; of those, rows that multiply the state together

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
  b.s = a.parts[blockIdx.y];
  b.head = static_cast<int>(blockIdx.x) % a.value_heads;
  b.key_head = KeyHeadOf(a, b.head);
  b.column = static_cast<int>(blockIdx.x) / a.value_heads * t.slice;
  b.width = min(t.slice, a.value_size - b.column);
  b.first_of_head = b.column == 0;
  const bool first = a.alternates != 0 ? b.head < a.key_heads : b.head % (a.value_heads / a.key_heads) == 0;
  b.first_of_key = b.first_of_head && first;
  b.part = static_cast<int>(threadIdx.x) / t.lanes, b.lane = static_cast<int>(threadIdx.x) % t.lanes;
  b.active = b.part < t.parts && 4 * b.lane < b.width;
  return b;
}

/// Starts to copy rows of `n` floats to shared memory.
__device__ __forceinline__ void FetchRows(float* to, int to_stride, const float* from, int64_t from_stride, int rows,
                                          int n, bool aligned) {
  const int run = aligned ? 4 : 1, runs = n / run;
  for (int i = threadIdx.x; i < rows * runs; i += blockDim.x) {
    float* at = to + i / runs * to_stride + i % runs * run;
    const float* source = from + i / runs * from_stride + i % runs * run;
    aligned ? CopyAsync(SharedAddress(at), source) : CopyFloatAsync(at, source);
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
    FetchRows(shared + t.decays, 1, tail + a.decay_in_row + b.head, a.row_floats, rows, 1, false);
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

/// Rows of a chunk that are computed together.
struct TileRows {
  int row, count;  // of the step
  int offset;      // in the chunk
  int position;    // of the first
};

/// Loads the rows' q, k, v, G and b, and stores k and G in the tail.
__device__ __forceinline__ void LoadRows(const RecurrencePlan& a, const StateTile& t, const StateBlock& b,
                                         const TileRows& rows, float* shared) {
  const int keys = b.key_head * a.key_size, tail_from = b.s.late != 0 ? INT_MAX : b.s.tail_from;
  for (int i = threadIdx.x; i < rows.count * a.key_size; i += blockDim.x) {
    const int r = i / a.key_size, c = i % a.key_size, at = r * t.key_stride + c, in_chunk = rows.offset + r;
    const float* mixed = MixedRow(a, rows.row + r);
    float* tail = rows.position + r >= tail_from ? TailRow(a, b.s, in_chunk) : nullptr;
    const float key = mixed[a.key_channel + keys + c], query = mixed[a.query_channel + keys + c];
    shared[in_chunk * t.key_stride + c] = key;
    shared[t.queries + at] = query;
    if (tail != nullptr && b.first_of_key) tail[a.key_in_row + keys + c] = key;
    if (a.channel_decays == 0) continue;
    const float decay = mixed[a.channels + keys + c], factor = expf(decay);
    shared[t.decays + in_chunk * t.key_stride + c] = decay;
    shared[t.decayed + at] = key * factor;
    shared[t.decayed + t.rows * t.key_stride + at] = query * factor;
    if (tail != nullptr && b.first_of_head) tail[a.decay_in_row + keys + c] = decay;
  }
  // With a single row, other threads than above, so that all loads are in flight together.
  const int other = static_cast<int>(threadIdx.x + blockDim.x / 2) % static_cast<int>(blockDim.x);
  for (int i = other; i < rows.count * b.width; i += blockDim.x) {
    const int r = i / b.width, c = i % b.width;
    shared[t.values + r * t.slice + c] =
        MixedRow(a, rows.row + r)[a.value_channel + b.head * a.value_size + b.column + c];
  }
  for (int r = static_cast<int>(blockDim.x - threadIdx.x) - 1; r < rows.count; r += blockDim.x) {
    const float* mixed = MixedRow(a, rows.row + r) + a.channels;
    shared[t.factors + t.rows + r] = mixed[a.decays + b.head];
    if (a.channel_decays != 0) {
      shared[t.factors + r] = 1.0f;
      continue;
    }
    const float decay = mixed[b.head];
    shared[t.decays + rows.offset + r] = decay;
    shared[t.factors + r] = expf(decay);
    if (b.first_of_head && rows.position + r >= tail_from) {
      TailRow(a, b.s, rows.offset + r)[a.decay_in_row + b.head] = decay;
    }
  }
}

/// The product of key i with the key or query of row t, times the decay between the rows.
__device__ __forceinline__ float WeightOf(const RecurrencePlan& a, const StateTile& t, const float* shared,
                                          const float* of_row, int row, int i) {
  const float* key = shared + i * t.key_stride;
  const float *decays = shared + t.decays + row * t.key_stride, *decays_i = shared + t.decays + i * t.key_stride;
  float4 sum{};
  for (int c = 0; c < t.parts * kPart; c += 4) {
    float4 k = *reinterpret_cast<const float4*>(key + c);
    const float4 x = *reinterpret_cast<const float4*>(of_row + c);
    if (a.channel_decays != 0) {
      const float4 g = *reinterpret_cast<const float4*>(decays + c), h = *reinterpret_cast<const float4*>(decays_i + c);
      k = {k.x * expf(g.x - h.x), k.y * expf(g.y - h.y), k.z * expf(g.z - h.z), k.w * expf(g.w - h.w)};
    }
    sum = {fmaf(k.x, x.x, sum.x), fmaf(k.y, x.y, sum.y), fmaf(k.z, x.z, sum.z), fmaf(k.w, x.w, sum.w)};
  }
  const float product = (sum.x + sum.y) + (sum.z + sum.w);
  return a.channel_decays != 0 ? product : product * expf(shared[t.decays + row] - shared[t.decays + i]);
}

/// The factors of u_i in the rows' u and o: [2][rows][kStateChunk].
__device__ __forceinline__ void WeighUpdates(const RecurrencePlan& a, const StateTile& t, const TileRows& rows,
                                             float* shared) {
  const int of_kind = rows.count * kStateChunk;
  for (int n = a.corrects != 0 ? threadIdx.x : of_kind + threadIdx.x; n < 2 * of_kind; n += blockDim.x) {
    const int kind = n / of_kind, r = n % of_kind / kStateChunk, i = n % kStateChunk, row = rows.offset + r;
    if (i > row || (kind == 0 && i == row)) continue;
    const float* of_row = kind == 0 ? shared + row * t.key_stride : shared + t.queries + r * t.key_stride;
    shared[t.weights + (kind * t.rows + r) * kStateChunk + i] = WeightOf(a, t, shared, of_row, row, i);
  }
}

/// S_0^T k and S_0^T q of the rows: [2][rows][slice].
__device__ __forceinline__ void MultiplyState(const RecurrencePlan& a, const StateTile& t, const StateBlock& b,
                                              const TileRows& rows, const float4 (&state)[kPart], float* shared) {
  for (int first = 0; first < rows.count; first += t.state_rows) {
    const int count = min(t.state_rows, rows.count - first);
    for (int r = 0; b.active && r < count; ++r) {
      const int at = (first + r) * t.key_stride + b.part * kPart;
      const float* key = shared + (rows.offset + first + r) * t.key_stride + b.part * kPart;
      const float* query = shared + t.queries + at;
      if (a.channel_decays != 0) key = shared + t.decayed + at, query = key + t.rows * t.key_stride;
      float4 by_key{}, by_query{};
#pragma unroll
      for (int i = 0; i < kPart; i += 4) {
        const float4 k = *reinterpret_cast<const float4*>(key + i), q = *reinterpret_cast<const float4*>(query + i);
        by_key = FusedMultiplyAdd(state[i], k.x, by_key), by_query = FusedMultiplyAdd(state[i], q.x, by_query);
        by_key = FusedMultiplyAdd(state[i + 1], k.y, by_key), by_query = FusedMultiplyAdd(state[i + 1], q.y, by_query);
        by_key = FusedMultiplyAdd(state[i + 2], k.z, by_key), by_query = FusedMultiplyAdd(state[i + 2], q.z, by_query);
        by_key = FusedMultiplyAdd(state[i + 3], k.w, by_key), by_query = FusedMultiplyAdd(state[i + 3], q.w, by_query);
      }
      float* to = shared + t.partial + (r * t.parts + b.part) * 2 * t.slice + 4 * b.lane;
      *reinterpret_cast<float4*>(to) = by_key;
      *reinterpret_cast<float4*>(to + t.slice) = by_query;
    }
    __syncthreads();
    for (int n = threadIdx.x; n < count * 2 * b.width; n += blockDim.x) {
      const int r = n / (2 * b.width), kind = n / b.width % 2, c = n % b.width;
      const float* from = shared + t.partial + (r * t.parts * 2 + kind) * t.slice + c;
      float sum = 0;
      for (int part = 0; part < t.parts; ++part) sum += from[part * 2 * t.slice];
      shared[t.from_state + (kind * t.rows + first + r) * t.slice + c] = sum;
    }
    __syncthreads();
  }
}

/// u and o of the rows, one after the other.
__device__ __forceinline__ void UpdateRows(const RecurrencePlan& a, const StateTile& t, const StateBlock& b,
                                           const TileRows& rows, float* shared) {
  for (int r = 0; r < rows.count; ++r) {
    const int row = rows.offset + r, row_parts = (row + kRowPart - 1) / kRowPart;
    const float *by_key = shared + t.weights + r * kStateChunk, *by_query = by_key + t.rows * kStateChunk;
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
    __syncthreads();
    const float decay = shared[t.factors + r], weight = shared[t.factors + t.rows + r], own = by_query[row];
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
      StoreElement(a.out.data, a.out.dtype, (rows.row + r) * a.out.stride + column, o);
      if (rows.position + r >= b.s.tail_from) TailRow(a, b.s, row)[a.update_in_row + column] = u;
    }
    __syncthreads();
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

__global__ void __launch_bounds__(kMaxThreads) UpdateStateKernel(RecurrencePlan a, StateTile t) {
  extern __shared__ float4 shared_vectors[];
  auto* shared = reinterpret_cast<float*>(shared_vectors);
  TriggerProgrammaticLaunch();
  if (a.early == 0) GridDependencySync();
  const StateBlock b = BlockOf(a, t);
  float4 state[kPart];
  LoadState(a, b, state);
  FetchTail(a, t, b, shared);
  ClearPadding(a, t, shared);
  if (a.early != 0) GridDependencySync();
  WaitForAllCopies();
  for (int done = 0; done < b.s.rows;) {
    const int position = b.s.position + done, offset = position % kStateChunk,
              rows = min(b.s.rows - done, kStateChunk - offset);
    for (int first = 0; first < rows; first += t.rows) {
      const TileRows tile{b.s.first_row + done + first, min(t.rows, rows - first), offset + first, position + first};
      LoadRows(a, t, b, tile, shared);
      __syncthreads();
      WeighUpdates(a, t, tile, shared);
      MultiplyState(a, t, b, tile, state, shared);
      UpdateRows(a, t, b, tile, shared);
    }
    done += rows;
    if (offset + rows < kStateChunk) continue;
    FoldChunk(a, t, b, state, shared);
    if (const int slot = WrittenSlot(a, b.s, position + rows); slot >= 0) StoreState(a, b, state, slot);
  }
}

StateTile TileOf(const RecurrencePlan& plan, int slice, int rows, int state_rows) {
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

/// The largest tile that fits in shared memory.
StateTile LargestTile(const Launcher& on, const RecurrencePlan& plan) {
  int slice = std::min(plan.value_size, kMaxSlice), rows = plan.single != 0 ? 1 : kTileRows;
  for (;;) {
    const StateTile tile = TileOf(plan, slice, rows, std::min(rows, kStateRows));
    if (tile.bytes() <= SharedBytes(on.large)) return tile;
    if (rows > 1) {
      rows /= 2;
      continue;
    }
    CHECK_GT(slice, 16);
    slice = (slice / 2 + 15) / 16 * 16;
  }
}

}  // namespace

void LaunchUpdateState(const Launcher& on, const RecurrencePlan& plan) {
  const StateTile tile = LargestTile(on, plan);
  const int slices = (plan.value_size + tile.slice - 1) / tile.slice,
            threads = (tile.parts * tile.lanes + 31) / 32 * 32;
  Launch(on, UpdateStateKernel, Grid(int64_t{plan.value_heads} * slices, plan.part_count), threads, tile.bytes(), plan,
         tile);
}

}  // namespace ringside::cuda
