// As chunk_states.cu with WGMMA: four consumer warps compute 64 value channels of a head, chunk after chunk, with the
// state in their registers, and a producer warp copies the next chunk. A chunk's tiles are copied as they are in
// scratch memory.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/recurrence/chunk_results.cuh"
#include "kernels/cuda/recurrence/row_products.cuh"

namespace ringside::cuda {
namespace {

constexpr int kKeys = 128;  // channels of a key
constexpr int kConsumerWarps = 4, kThreads = 32 * (kConsumerWarps + 1);
constexpr int kSlice = kChunkSlice;  // value channels of a block
constexpr int kPanelBytes = kStateChunk * 128;
constexpr int kPart = kStateChunk * kKeys * 2;

/// Two chunks in shared memory, in bytes: keys and queries in two parts each, the weights, and v of the block's
/// channels; then the factors of both chunks, the slots of the boundaries after them, and barriers.
struct Stages {
  static constexpr int kCount = 2;
  static constexpr int kQueries = 2 * kPart, kWeights = 4 * kPart, kValues = kWeights + kChunkWeightBytes;
  static constexpr int kStage = kValues + kStateChunk * kSlice * 4;
  static constexpr int kFactors = kCount * kStage, kSlots = kFactors + kCount * kChunkFactorBytes;
  static constexpr int kBarriers = kSlots + kCount * 8,
                       kBytes = kBarriers + kCount * 16 + 1024;  // starts at a multiple

  char* base;
  uint32_t address;

  __device__ __forceinline__ explicit Stages(char* shared)
      : base(shared + (1024 - SharedAddress(shared) % 1024) % 1024), address(SharedAddress(base)) {}
  /// Called by one thread.
  __device__ __forceinline__ void Init() const {
    for (int n = 0; n < kCount; ++n) InitBarrier(Full(n), 2), InitBarrier(Empty(n), kConsumerWarps);
    FenceBarriers();
  }
  // `n`: number of the chunk in this block, from 0.
  __device__ __forceinline__ uint32_t Stage(int n) const { return address + n % kCount * kStage; }
  __device__ __forceinline__ float* Values(int n) const {
    return reinterpret_cast<float*>(base + n % kCount * kStage + kValues);
  }
  __device__ __forceinline__ float* Factors(int n) const {
    return reinterpret_cast<float*>(base + kFactors + n % kCount * kChunkFactorBytes);
  }
  __device__ __forceinline__ int& Slot(int n) const { return reinterpret_cast<int*>(base + kSlots)[n % kCount]; }
  __device__ __forceinline__ uint32_t Full(int n) const { return address + kBarriers + n % kCount * 16; }
  __device__ __forceinline__ uint32_t Empty(int n) const { return Full(n) + 8; }
  __device__ __forceinline__ void AwaitFull(int n) const { WaitAt(Full(n), n / kCount % 2); }
  __device__ __forceinline__ void AwaitEmpty(int n) const { WaitAt(Empty(n), n / kCount % 2 ^ 1); }
  __device__ __forceinline__ void Release(int n) const { ArriveAsWarp(Empty(n), static_cast<int>(threadIdx.x) % 32); }
};

/// The producer warp: copies the block's chunks.
template <bool kCorrects>
__device__ __forceinline__ void ProduceChunks(const RecurrencePlan& a, const ChunkRun& run,
                                              const BlockChannels& channels, const Stages& stages, const char* images) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const ChunkImage layout(a);
  constexpr int kUnused = kCorrects ? 0 : kChunkWeightBytes / 2;  // without a correction u has no weights
  const int column = channels.head * a.value_size + channels.first + lane % 16 * 4;
  for (int chunk = run.first; chunk < run.end; ++chunk, images += layout.bytes) {
    const int n = chunk - run.first;
    stages.AwaitEmpty(n);
    const uint32_t stage = stages.Stage(n), full = stages.Full(n);
    if (lane == 0) {
      stages.Slot(n) = run.SlotAfter(a, chunk);
      const char* head = images + layout.Head(channels.head);
      ArriveExpectTx(full, 4 * kPart + kChunkWeightBytes - kUnused + kChunkFactorBytes);
      CopyBulk(stage, images + layout.Keys(a, channels.key_head), 4 * kPart, full);
      CopyBulk(stage + Stages::kWeights + kUnused, head + kUnused, kChunkWeightBytes - kUnused, full);
      CopyBulk(SharedAddress(stages.Factors(n)), head + kChunkWeightBytes, kChunkFactorBytes, full);
    }
    __syncwarp();
    const ChunkRows rows = RowsOfChunk(a, run.s, chunk);
    const uint32_t values = stage + Stages::kValues;
#pragma unroll 8
    for (int row = lane / 16; row < kStateChunk; row += 2) {
      const float* from = rows.At(min(row, rows.end - 1), a.value_channel + column, a.update_in_row + column);
      CopyAsyncOrZero(values + ValueIndex(row, lane % 16 * 4) * 4, from, row < rows.end);
    }
    ArriveOnCopies(full);
    ArriveAsWarp(full, lane);
  }
  WaitForAllCopies();
}

/// Left operands of 16 columns per step, in two parts.
template <int kSteps>
struct Operands {
  uint32_t high[kSteps][4], low[kSteps][4];

  /// From accumulators of 16 columns per step.
  __device__ __forceinline__ void Set(const float (&x)[8 * kSteps]) {
#pragma unroll
    for (int i = 0; i < 4 * kSteps; ++i) {
      const SplitPair pair = Split(x[2 * i], x[2 * i + 1]);
      high[i / 4][i % 4] = pair.high, low[i / 4][i % 4] = pair.low;
    }
  }
};

/// sums (+)= x times the transposed rows of a tile in two parts.
template <int kSteps>
__device__ __forceinline__ void MultiplyTile(float (&sums)[4 * kRowTiles], const Operands<kSteps>& x, uint32_t high,
                                             uint32_t low, bool adds) {
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    const uint32_t at = k / 4 * kPanelBytes + k % 4 * 32;
    MultiplyByRows(sums, x.high[k], RowDescriptor(high + at), adds || k > 0);
    MultiplyByRows(sums, x.high[k], RowDescriptor(low + at), true);
    MultiplyByRows(sums, x.low[k], RowDescriptor(high + at), true);
  }
}

/// state += the folded updates times the keys.
__device__ __forceinline__ void AddUpdates(float (&state)[kKeys / 2], const Operands<kBlocks>& folded, uint32_t keys) {
  const uint64_t tile = RightDescriptor<128>(kPanelBytes, 1024);
#pragma unroll
  for (int j = 0; j < kBlocks; ++j) {
    const uint64_t high = At(tile, keys + j * 2048), low = At(tile, keys + kPart + j * 2048);
    Multiply(state, folded.high[j], high, true, __nv_bfloat16());
    Multiply(state, folded.high[j], low, true, __nv_bfloat16());
    Multiply(state, folded.low[j], high, true, __nv_bfloat16());
  }
}

/// A chunk in shared memory as a lane of the consumer warps reads it.
struct ChunkView {
  uint32_t stage, weights;
  const float *decays, *betas, *folds;  // factors of its rows
  const float* values[2];               // of its value channels
  float decay;                          // e^G_C

  __device__ __forceinline__ ChunkView(const Stages& stages, int n, const BlockChannels& channels)
      : stage(stages.Stage(n)), weights(stage + Stages::kWeights), decays(stages.Factors(n) + LaneRow()) {
    betas = decays + kStateChunk, folds = betas + kStateChunk;
    values[0] = stages.Values(n) + ValueIndex(LaneRow(), channels.lane_channel);
    values[1] = stages.Values(n) + ValueIndex(LaneRow(), channels.lane_channel + 8);
    decay = stages.Factors(n)[kStateChunk - 1];
  }
  __device__ __forceinline__ float ValueAt(int t, int c) const { return values[c][t * kSlice]; }
};

/// u of a chunk, and S_0^T q in o. `from`: S_0.
template <bool kCorrects>
__device__ __forceinline__ void SolveChunk(const ChunkView& chunk, const Operands<kKeys / 16>& from,
                                           float (&u)[4 * kRowTiles], float (&o)[4 * kRowTiles],
                                           Operands<kBlocks>& updates) {
  const uint32_t queries = chunk.stage + Stages::kQueries;
  WgmmaFence();
  if constexpr (kCorrects) {
    MultiplyTile(u, from, chunk.stage, chunk.stage + kPart, false);
    WgmmaCommit();
  }
  MultiplyTile(o, from, queries, queries + kPart, false);
  WgmmaCommit();
  if constexpr (kCorrects) WgmmaWait<1>(u);
  EachElement([&](int m, int i, int t, int c) {
    float& x = u[4 * m + i];
    const float value = chunk.ValueAt(t, c);
    x = chunk.betas[t] * (kCorrects ? fmaf(-chunk.decays[t], x, value) : value);
  });
  updates.Set(u);
  if constexpr (kCorrects) {
    WgmmaFence();
    MultiplyTile(u, updates, chunk.weights, chunk.weights + kPairTileBytes, false);
    WgmmaCommit();
    WgmmaWait<0>(u);
    Hold(o);
    updates.Set(u);
  } else {
    WgmmaWait<0>(o);
  }
}

/// The state after a chunk; its results are complete after the next WgmmaWait<0>.
__device__ __forceinline__ void FoldChunk(const ChunkView& chunk, const float (&u)[4 * kRowTiles],
                                          const Operands<kBlocks>& updates, float (&o)[4 * kRowTiles],
                                          float (&state)[kKeys / 2]) {
  float folded[4 * kRowTiles];
  EachElement([&](int m, int i, int t, int) {
    folded[4 * m + i] = u[4 * m + i] * chunk.folds[t];
    o[4 * m + i] *= chunk.decays[t];
  });
  Operands<kBlocks> fold;
  fold.Set(folded);
#pragma unroll
  for (float& x : state) x *= chunk.decay;
  WgmmaFence();
  AddUpdates(state, fold, chunk.stage);
  WgmmaCommit();
  MultiplyTile(o, updates, chunk.weights + 2 * kPairTileBytes, chunk.weights + 3 * kPairTileBytes, true);
  WgmmaCommit();
  WgmmaWait<1>(state);
}

/// The consumer warps: results and states of the block's chunks.
template <bool kCorrects>
__device__ __forceinline__ void ConsumeChunks(const RecurrencePlan& a, const ChunkRun& run,
                                              const BlockChannels& channels, const Stages& stages) {
  float state[kKeys / 2];
  float* boundary = run.from_slot < 0 ? nullptr : BoundaryOf(a, run.s, run.from_slot);
  EachStateValue<kKeys>(a, channels, boundary,
                        [&](const float* at, int n, int i) { state[4 * n + i] = boundary != nullptr ? *at : 0.0f; });
  const auto store = [&](int slot) {
    EachStateValue<kKeys>(a, channels, BoundaryOf(a, run.s, slot),
                          [&](float* at, int n, int i) { *at = state[4 * n + i]; });
  };
  Operands<kKeys / 16> from;
  from.Set(state);
  for (int chunk = run.first; chunk < run.end; ++chunk) {
    const int n = chunk - run.first;
    stages.AwaitFull(n);
    const ChunkView view(stages, n, channels);
    float u[4 * kRowTiles], o[4 * kRowTiles];
    Operands<kBlocks> updates;
    SolveChunk<kCorrects>(view, from, u, o, updates);
    FoldChunk(view, u, updates, o, state);
    if (const int slot = stages.Slot(n); slot >= 0) store(slot);
    from.Set(state);
    WgmmaWait<0>(o);
    if (a.skip != nullptr) {
      const float skip = a.skip[channels.head];
      EachElement([&](int m, int i, int t, int c) { o[4 * m + i] = fmaf(skip, view.ValueAt(t, c), o[4 * m + i]); });
    }
    stages.Release(n);
    StoreChunk(
        a, run.s, channels, RowsOfChunk(a, run.s, chunk), chunk, [&](int m, int i) { return o[4 * m + i]; },
        [&](int m, int i) { return u[4 * m + i]; });
  }
  if (run.end < ChunksOf(run.s)) store(run.last_slot);
}

template <bool kCorrects>
__global__ void __launch_bounds__(kThreads, 1)
    WgmmaStatesKernel(RecurrencePlan a, ChunkRange range, const char* images) {
  extern __shared__ float4 shared_vectors[];
  const Stages stages(reinterpret_cast<char*>(shared_vectors));
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) stages.Init();
  __syncthreads();
  BeginDependentKernel();
  const int slices = a.value_size / kSlice, head = static_cast<int>(blockIdx.x) / slices;
  const BlockChannels channels{head, KeyHeadOf(a, head), static_cast<int>(blockIdx.x) % slices * kSlice, kSlice,
                               thread / 32 * 16 + thread % 32 / 4};
  const ChunkRun run(a, range, static_cast<int>(blockIdx.y));
  if (thread >= 32 * kConsumerWarps) {
    images += static_cast<int64_t>(blockIdx.y) * range.count * ChunkImage(a).bytes;
    ProduceChunks<kCorrects>(a, run, channels, stages, images);
  } else if (run.first < run.end) {
    ConsumeChunks<kCorrects>(a, run, channels, stages);
  }
}

}  // namespace

bool HasWgmmaStates(const Launcher& on, const RecurrencePlan& plan) {
  return on.wgmma && plan.key_size == kKeys && plan.value_size % kSlice == 0 && plan.channel_decays == 0;
}

void LaunchWgmmaStates(const Launcher& on, const RecurrencePlan& plan, const ChunkRange& chunks, const void* images) {
  const auto launch = [&](auto kernel) {
    Launch(on, kernel, Grid(int64_t{plan.value_heads} * (plan.value_size / kSlice), plan.run_count), kThreads,
           static_cast<size_t>(Stages::kBytes), plan, chunks, static_cast<const char*>(images));
  };
  plan.corrects != 0 ? launch(WgmmaStatesKernel<true>) : launch(WgmmaStatesKernel<false>);
}

}  // namespace ringside::cuda
