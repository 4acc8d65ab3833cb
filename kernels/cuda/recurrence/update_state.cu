// Rows of any number of a recurrent mixer's segments in float32, in tiles (state_tile.cuh), after convolve_rows.cu.
#include <algorithm>
#include <climits>

#include "kernels/cuda/recurrence/state_tile.cuh"

namespace ringside::cuda {
namespace {

constexpr int kMaxThreads = RecurrenceShape::kMaxSize / kPart * kMostSlice / 4;
constexpr int kTileRows = 16, kStateRows = 4;  // rows of a tile; of those, rows that multiply the state together
constexpr int kWeighedRows = 2;                // rows whose products with a key are computed together

/// Rows of a chunk that are computed together.
struct TileRows {
  int row, count;  // of the step
  int offset;      // in the chunk
  int position;    // of the first
};

__device__ __forceinline__ float4 FusedMultiplyAdd(float4 x, float4 y, float4 sum) {
  return {fmaf(x.x, y.x, sum.x), fmaf(x.y, y.y, sum.y), fmaf(x.z, y.z, sum.z), fmaf(x.w, y.w, sum.w)};
}

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
  // With few rows, other threads than above, so that all loads are in flight together.
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

/// The products of key i with the keys and queries of kWeighedRows rows, beginning at row r of the tile, times the
/// decays between the rows: in four sums over every fourth channel each.
__device__ __forceinline__ void WeighUpdate(const RecurrencePlan& a, const StateTile& t, const TileRows& rows, int r,
                                            int i, float* shared) {
  const float *key = shared + i * t.key_stride, *decays = shared + t.decays;
  const float *keys = shared + (rows.offset + r) * t.key_stride, *queries = shared + t.queries + r * t.key_stride;
  const int last = rows.count - 1 - r;  // read instead of the rows after it, which may be outside the tile
  float4 by_key[kWeighedRows] = {}, by_query[kWeighedRows] = {};
  for (int c = 0; c < t.parts * kPart; c += 4) {
    const float4 k = *reinterpret_cast<const float4*>(key + c);
#pragma unroll
    for (int n = 0; n < kWeighedRows; ++n) {
      const int row = min(n, last);
      const float4 x = *reinterpret_cast<const float4*>(keys + row * t.key_stride + c),
                   y = *reinterpret_cast<const float4*>(queries + row * t.key_stride + c);
      float4 scaled = k;
      if (a.channel_decays != 0) {
        const float4 g = *reinterpret_cast<const float4*>(decays + (rows.offset + r + row) * t.key_stride + c),
                     h = *reinterpret_cast<const float4*>(decays + i * t.key_stride + c);
        scaled = {k.x * expf(g.x - h.x), k.y * expf(g.y - h.y), k.z * expf(g.z - h.z), k.w * expf(g.w - h.w)};
      }
      if (a.corrects != 0) by_key[n] = FusedMultiplyAdd(scaled, x, by_key[n]);
      by_query[n] = FusedMultiplyAdd(scaled, y, by_query[n]);
    }
  }
#pragma unroll
  for (int n = 0; n < kWeighedRows; ++n) {
    const int row = rows.offset + r + n;
    if (n > last || i > row) continue;
    const float factor = a.channel_decays != 0 ? 1.0f : expf(decays[row] - decays[i]);
    float* to = shared + t.weights + (r + n) * kStateChunk + i;
    to[0] = ((by_key[n].x + by_key[n].y) + (by_key[n].z + by_key[n].w)) * factor;
    to[t.rows * kStateChunk] = ((by_query[n].x + by_query[n].y) + (by_query[n].z + by_query[n].w)) * factor;
  }
}

/// The factors of u_i in the rows' u and o: [2][rows][kStateChunk].
__device__ __forceinline__ void WeighUpdates(const RecurrencePlan& a, const StateTile& t, const TileRows& rows,
                                             float* shared) {
  const int tasks = (rows.count + kWeighedRows - 1) / kWeighedRows * kStateChunk;
  for (int n = threadIdx.x; n < tasks; n += blockDim.x) {
    const int r = n / kStateChunk * kWeighedRows, i = n % kStateChunk;
    if (i < rows.offset + r + kWeighedRows) WeighUpdate(a, t, rows, r, i, shared);
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
      MultiplyStatePart(t, state, key, query, shared + t.partial + (r * t.parts + b.part) * 2 * t.slice + 4 * b.lane);
    }
    __syncthreads();
    SumStateParts(t, b, shared + t.partial, count, shared + t.from_state + first * t.slice);
    __syncthreads();
  }
}

/// u and o of the rows, a row part after the other.
__device__ __forceinline__ void UpdateRows(const RecurrencePlan& a, const StateTile& t, const StateBlock& b,
                                           const TileRows& rows, float* shared) {
  for (int first = 0; first < rows.count;) {
    const int row = rows.offset + first;
    const RowGroup group{first, min(rows.count - first, kRowPart - row % kRowPart), row};
    const float* by_key = shared + t.weights + first * kStateChunk;
    SumUpdates(a, t, b, row, group.count, by_key, by_key + t.rows * kStateChunk, shared);
    __syncthreads();
    SolveRows(a, t, b, group, shared);
    __syncthreads();
    FinishRows(a, t, b, group, rows.row + first, b.s.tail_from - rows.position - first, shared);
    __syncthreads();
    first += group.count;
  }
}

__global__ void __launch_bounds__(kMaxThreads) UpdateStateKernel(RecurrencePlan a, StateTile t) {
  extern __shared__ float4 shared_vectors[];
  auto* shared = reinterpret_cast<float*>(shared_vectors);
  TriggerProgrammaticLaunch();
  if (a.early == 0) GridDependencySync();
  StateBlock b = BlockOf(a, t);
  float4 state[kPart];
  LoadState(a, b, state);
  FetchTail(a, t, b, shared);
  ClearPadding(a, t, shared);
  SetGroup(&b);
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

}  // namespace

void LaunchUpdateState(const Launcher& on, const RecurrencePlan& plan) {
  const StateTile tile = TileFor(on, plan, std::min(plan.part_rows, kTileRows), kStateRows);
  const int threads = (tile.parts * tile.lanes + 31) / 32 * 32;
  Launch(on, UpdateStateKernel, StateGrid(plan, tile), threads, tile.bytes(), plan, tile);
}

}  // namespace ringside::cuda
