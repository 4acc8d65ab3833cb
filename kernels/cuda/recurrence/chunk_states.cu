// Whole chunks of a recurrent mixer (kernels/recurrence.h) on tensor cores, after chunk_weights.cu. A warp computes 16
// value channels of a head, chunk after chunk, with the state in the accumulators of its registers: all matrices are
// transposed, [value channels, rows] or [value channels, key channels], so that each result is the left operand of the
// next product. Other warps load the next chunk meanwhile.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/recurrence/chunk_results.cuh"

namespace ringside::cuda {
namespace {

constexpr int kLoaders = 128;                // threads that load
constexpr int kMaxWarps = kChunkSlice / 16;  // that compute

/// A chunk in shared memory, in bytes: keys and queries as in ChunkImage, the weights, their factors, and v of the
/// block's channels. With decays of key channels there is room for one stage.
template <int kKeys, bool kChannels>
struct ChunkStage {
  static constexpr int kPart = kStateChunk * kKeys * 2;
  static constexpr int kFolded = kChannels ? 4 * kPart : 0;  // k by which u is added to the state
  static constexpr int kDecays = 6 * kPart;                  // [kKeys]: e^G_C
  static constexpr int kWeights = kChannels ? kDecays + kKeys * 4 : 4 * kPart;
  static constexpr int kFactors = kWeights + kChunkWeightBytes, kValues = kFactors + kChunkFactorBytes;
  static constexpr int kBytes = kValues + kStateChunk * kChunkSlice * 4, kCount = kChannels ? 1 : 2;
};

template <int kKeys, bool kCorrects, bool kChannels>
__device__ __forceinline__ void LoadChunk(const RecurrencePlan& a, const BlockChannels& channels, const ChunkRows& rows,
                                          const char* image, char* stage) {
  using Stage = ChunkStage<kKeys, kChannels>;
  const int thread = static_cast<int>(threadIdx.x) % kLoaders;
  const auto copy = [&](int to, const char* from, int bytes) {
    for (int at = thread * 16; at < bytes; at += kLoaders * 16) CopyAsync(SharedAddress(stage + to + at), from + at);
  };
  const ChunkImage layout(a);
  const int unused = kCorrects ? 0 : kChunkWeightBytes / 2;  // without a correction u has no weights
  copy(0, image + layout.Keys(a, channels.key_head), Stage::kWeights);
  copy(Stage::kWeights + unused, image + layout.Head(channels.head) + unused,
       kChunkWeightBytes + kChunkFactorBytes - unused);
  const int column = channels.head * a.value_size + channels.first;
  auto* values = reinterpret_cast<float*>(stage + Stage::kValues);
  for (int i = thread; i < kStateChunk * channels.slice / 4; i += kLoaders) {
    const int r = i / (channels.slice / 4), c = i % (channels.slice / 4) * 4;
    const float* from = rows.At(min(r, rows.end - 1), a.value_channel + column + c, a.update_in_row + column + c);
    CopyAsyncOrZero(SharedAddress(values + ValueIndex(r, c)), from, r < rows.end);
  }
  WaitForAllCopies();
}

/// The state of 16 value channels: accumulators of [value channels, key channels].
template <int kKeys>
struct WarpState {
  float s[kKeys / 8][4];
};

template <int kKeys>
__device__ __forceinline__ void StoreState(const RecurrencePlan& a, const StagedState& s, const BlockChannels& channels,
                                           int slot, const WarpState<kKeys>& state) {
  EachStateValue<kKeys>(a, channels, BoundaryOf(a, s, slot), [&](float* at, int n, int i) { *at = state.s[n][i]; });
}

/// [value channels, rows] of a chunk.
using RowValues = float[kRowTiles][4];

/// S_0^T k and S_0^T q of all rows.
template <int kKeys, bool kCorrects>
__device__ __forceinline__ void MultiplyState(const WarpState<kKeys>& state, uint32_t stage, RowValues& by_key,
                                              RowValues& by_query) {
  using Stage = ChunkStage<kKeys, false>;
  EachElement([&](int n, int i, int, int) { by_key[n][i] = by_query[n][i] = 0; });
#pragma unroll
  for (int k = 0; k < kKeys / 16; ++k) {
    const SplitOperand s = OperandOf(state.s[2 * k], state.s[2 * k + 1]);
#pragma unroll
    for (int j = 0; j < kBlocks; ++j) {
      uint32_t high[4], low[4];
      if constexpr (kCorrects) {
        LoadRowOperand<kKeys>(high, stage, 16 * j, k), LoadRowOperand<kKeys>(low, stage + Stage::kPart, 16 * j, k);
        MultiplyAddSplit(by_key[2 * j], by_key[2 * j + 1], s, high, low);
      }
      LoadRowOperand<kKeys>(high, stage + 2 * Stage::kPart, 16 * j, k);
      LoadRowOperand<kKeys>(low, stage + 2 * Stage::kPart + Stage::kPart, 16 * j, k);
      MultiplyAddSplit(by_query[2 * j], by_query[2 * j + 1], s, high, low);
    }
  }
}

/// left, right += x times the transposed block (j, i) of a matrix of weights.
__device__ __forceinline__ void MultiplyWeights(float (&left)[4], float (&right)[4], const SplitOperand& x,
                                                uint32_t weights, int j, int i) {
  uint32_t high[4], low[4];
  LoadRowOperand<kStateChunk>(high, weights, 16 * j, i);
  LoadRowOperand<kStateChunk>(low, weights + kPairTileBytes, 16 * j, i);
  MultiplyAddSplit(left, right, x, high, low);
}

/// Solves for u, in place, and returns it as operands.
template <bool kCorrects>
__device__ __forceinline__ void SolveUpdates(uint32_t weights, RowValues& u, SplitOperand (&operands)[kBlocks]) {
#pragma unroll
  for (int j = 0; j < kBlocks; ++j) operands[j] = OperandOf(u[2 * j], u[2 * j + 1]);
  if constexpr (!kCorrects) return;
  EachElement([&](int n, int i, int, int) { u[n][i] = 0; });
#pragma unroll
  for (int j = 0; j < kBlocks; ++j) {
#pragma unroll
    for (int i = 0; i <= j; ++i) MultiplyWeights(u[2 * j], u[2 * j + 1], operands[i], weights, j, i);
  }
#pragma unroll
  for (int j = 0; j < kBlocks; ++j) operands[j] = OperandOf(u[2 * j], u[2 * j + 1]);
}

/// state = the state after the chunk.
template <int kKeys, bool kChannels>
__device__ __forceinline__ void FoldChunk(const RowValues& u, const char* stage, WarpState<kKeys>* state) {
  using Stage = ChunkStage<kKeys, kChannels>;
  const auto* factors = reinterpret_cast<const float*>(stage + Stage::kFactors);
  const auto* decays = reinterpret_cast<const float*>(stage + Stage::kDecays) + LaneRow();
  const float* fold = factors + 2 * kStateChunk + LaneRow();
  const float decay = factors[kStateChunk - 1];
  const uint32_t keys = SharedAddress(stage + Stage::kFolded);
#pragma unroll
  for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) state->s[n][i] *= kChannels ? decays[8 * n + i % 2] : decay;
  }
#pragma unroll
  for (int j = 0; j < kBlocks; ++j) {
    float folded[2][4];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        folded[n][i] = u[2 * j + n][i] * fold[16 * j + 8 * n + i % 2];
      }
    }
    const SplitOperand operand = OperandOf(folded[0], folded[1]);
#pragma unroll
    for (int c = 0; c < kKeys / 16; ++c) {
      uint32_t high[4], low[4];
      LoadColumnOperand<kKeys>(high, keys, 16 * j, c), LoadColumnOperand<kKeys>(low, keys + Stage::kPart, 16 * j, c);
      MultiplyAddSplit(state->s[2 * c], state->s[2 * c + 1], operand, high, low);
    }
  }
}

/// A chunk's results, and its state.
template <int kKeys, bool kCorrects, bool kChannels>
__device__ __forceinline__ void ComputeChunk(const RecurrencePlan& a, const StagedState& s,
                                             const BlockChannels& channels, int chunk, char* stage,
                                             WarpState<kKeys>* state) {
  using Stage = ChunkStage<kKeys, kChannels>;
  const auto* factors = reinterpret_cast<const float*>(stage + Stage::kFactors);
  const auto* values = reinterpret_cast<const float*>(stage + Stage::kValues);
  const uint32_t shared = SharedAddress(stage);
  const float* values_of[2] = {values + ValueIndex(LaneRow(), channels.lane_channel),
                               values + ValueIndex(LaneRow(), channels.lane_channel + 8)};
  const auto value_at = [&](int t, int c) { return values_of[c][t * kChunkSlice]; };
  const float *decays = factors + LaneRow(), *weights = decays + kStateChunk;
  RowValues u, o;
  MultiplyState<kKeys, kCorrects>(*state, shared, u, o);
  EachElement([&](int n, int i, int t, int c) {
    u[n][i] = weights[t] * (kCorrects ? fmaf(-decays[t], u[n][i], value_at(t, c)) : value_at(t, c));
    o[n][i] *= decays[t];
  });
  SplitOperand operands[kBlocks];
  SolveUpdates<kCorrects>(shared + Stage::kWeights, u, operands);
#pragma unroll
  for (int j = 0; j < kBlocks; ++j) {
#pragma unroll
    for (int i = 0; i <= j; ++i) {
      MultiplyWeights(o[2 * j], o[2 * j + 1], operands[i], shared + Stage::kWeights + 2 * kPairTileBytes, j, i);
    }
  }
  if (a.skip != nullptr) {
    const float skip = a.skip[channels.head];
    EachElement([&](int n, int i, int t, int c) { o[n][i] = fmaf(skip, value_at(t, c), o[n][i]); });
  }
  StoreChunk(
      a, s, channels, RowsOfChunk(a, s, chunk), chunk, [&](int n, int i) { return o[n][i]; },
      [&](int n, int i) { return u[n][i]; });
  FoldChunk<kKeys, kChannels>(u, stage, state);
}

template <int kKeys, bool kCorrects, bool kChannels>
__global__ void __launch_bounds__(kLoaders + kMaxWarps * 32)
    ChunkStatesKernel(RecurrencePlan a, ChunkRange range, const char* images) {
  extern __shared__ float4 shared_vectors[];
  auto* shared = reinterpret_cast<char*>(shared_vectors);
  const int thread = static_cast<int>(threadIdx.x) - kLoaders;
  const bool loads = thread < 0;
  BlockChannels channels;
  channels.head = static_cast<int>(blockIdx.x) % a.value_heads;
  channels.key_head = KeyHeadOf(a, channels.head);
  channels.slice = static_cast<int>(blockDim.x - kLoaders) / 2;
  channels.first = static_cast<int>(blockIdx.x) / a.value_heads * channels.slice;
  channels.lane_channel = thread / 32 * 16 + thread % 32 / 4;
  BeginDependentKernel();
  const ChunkRun run(a, range, static_cast<int>(blockIdx.y));
  if (run.first >= run.end) return;
  images += static_cast<int64_t>(blockIdx.y) * range.count * ChunkImage(a).bytes;
  using Stage = ChunkStage<kKeys, kChannels>;
  const auto stage = [&](int chunk) { return shared + chunk % Stage::kCount * Stage::kBytes; };
  const auto load = [&](int chunk) {
    LoadChunk<kKeys, kCorrects, kChannels>(a, channels, RowsOfChunk(a, run.s, chunk),
                                           images + (chunk - range.first) * ChunkImage(a).bytes, stage(chunk));
  };
  WarpState<kKeys> state;
  if (loads) {
    load(run.first);
  } else {
    float* boundary = run.from_slot < 0 ? nullptr : BoundaryOf(a, run.s, run.from_slot);
    EachStateValue<kKeys>(a, channels, boundary,
                          [&](const float* at, int n, int i) { state.s[n][i] = boundary != nullptr ? *at : 0.0f; });
  }
  __syncthreads();
  for (int chunk = run.first; chunk < run.end; ++chunk) {
    if (loads) {
      if (Stage::kCount > 1 && chunk + 1 < run.end) load(chunk + 1);
    } else {
      ComputeChunk<kKeys, kCorrects, kChannels>(a, run.s, channels, chunk, stage(chunk), &state);
      if (const int slot = run.SlotAfter(a, chunk); slot >= 0) StoreState(a, run.s, channels, slot, state);
    }
    __syncthreads();
    if constexpr (Stage::kCount > 1) continue;
    if (loads && chunk + 1 < run.end) load(chunk + 1);
    __syncthreads();
  }
  if (!loads && run.end < ChunksOf(run.s)) StoreState(a, run.s, channels, run.last_slot, state);
}

/// Warps that compute in a block: few if the blocks still run at once.
int WarpsOf(const Launcher& on, const RecurrencePlan& plan) {
  for (int warps = 1; warps < kMaxWarps; warps *= 2) {
    const int64_t blocks = int64_t{plan.value_heads} * plan.value_size / (16 * warps) * plan.run_count;
    if (blocks <= on.multiprocessors || plan.value_size % (32 * warps) != 0) return warps;
  }
  return kMaxWarps;
}

}  // namespace

bool HasChunkKernels(const Launcher& on, const RecurrencePlan& plan) {
  const bool small = plan.key_size == 64 && plan.channel_decays == 0;
  return on.large && plan.has_state != 0 && plan.aligned != 0 && (plan.key_size == 128 || small);
}

size_t ChunkImageBytes(const RecurrencePlan& plan) { return static_cast<size_t>(ChunkImage(plan).bytes); }

void LaunchChunkStates(const Launcher& on, const RecurrencePlan& plan, const ChunkRange& chunks, const void* images) {
  if (HasWgmmaStates(on, plan)) return LaunchWgmmaStates(on, plan, chunks, images);
  const int warps = WarpsOf(on, plan), slices = plan.value_size / (16 * warps);
  const auto launch = [&](auto kernel, auto stage) {
    Launch(on, kernel, Grid(int64_t{plan.value_heads} * slices, plan.run_count), kLoaders + 32 * warps,
           static_cast<size_t>(stage.kCount * stage.kBytes), plan, chunks, static_cast<const char*>(images));
  };
  const ChunkStage<128, false> stage;
  const ChunkStage<64, false> small;
  if (plan.channel_decays != 0) {
    launch(ChunkStatesKernel<128, true, true>, ChunkStage<128, true>());
  } else if (plan.corrects != 0) {
    plan.key_size == 128 ? launch(ChunkStatesKernel<128, true, false>, stage)
                         : launch(ChunkStatesKernel<64, true, false>, small);
  } else {
    plan.key_size == 128 ? launch(ChunkStatesKernel<128, false, false>, stage)
                         : launch(ChunkStatesKernel<64, false, false>, small);
  }
}

}  // namespace ringside::cuda
