// Rows of any number of a recurrent mixer's segments in float32, in tiles (state_tile.cuh), after convolve_rows.cu.
#include <algorithm>
#include <climits>

#include "kernels/cuda/recurrence/state_tile.cuh"

namespace ringside::cuda {
namespace {

constexpr int kMaxSlice = 128;  // value channels of a block
constexpr int kMaxThreads = RecurrenceShape::kMaxSize / kPart * kMaxSlice / 4;
constexpr int kTileRows = 16, kStateRows = 4;  // rows of a tile; of those, rows that multiply the state together

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
      MultiplyStatePart(t, state, key, query, shared + t.partial + (r * t.parts + b.part) * 2 * t.slice + 4 * b.lane);
    }
    __syncthreads();
    SumStateParts(t, b, shared + t.partial, count, shared + t.from_state + first * t.slice);
    __syncthreads();
  }
}

/// u and o of the rows, one after the other.
__device__ __forceinline__ void UpdateRows(const RecurrencePlan& a, const StateTile& t, const StateBlock& b,
                                           const TileRows& rows, float* shared) {
  for (int r = 0; r < rows.count; ++r) {
    const float* by_key = shared + t.weights + r * kStateChunk;
    SumUpdates(a, t, b, rows.offset + r, by_key, by_key + t.rows * kStateChunk, shared);
    __syncthreads();
    FinishRow(a, t, b, r, rows.offset + r, rows.row + r, rows.position + r >= b.s.tail_from, shared);
    __syncthreads();
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
