// Whole chunks of a recurrent mixer (kernels/recurrence.h) on tensor cores, after chunk_weights.cu. A warp computes 16
// value channels of a head, chunk after chunk, with the state in the accumulators of its registers: all matrices are
// transposed, [value channels, rows] or [value channels, key channels], so that each result is the left operand of the
// next product. Other warps load the next chunk meanwhile.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/recurrence/chunk_tiles.cuh"

namespace ringside::cuda {
namespace {

constexpr int kLoaders = 128;                // threads that load
constexpr int kMaxWarps = 4;                 // that compute
constexpr int kBlockSlice = 16 * kMaxWarps;  // most value channels of a block
constexpr int kRowTiles = kStateChunk / 8, kBlocks = kStateChunk / 16;

/// A chunk in shared memory, in bytes: k and q in two parts each, the weights, v of the block's channels, and factors
/// of rows. With decays of key channels k and q are scaled by e^G_t, and k again by e^(G_C - G_t) instead; then there
/// is room for one stage.
template <int kKeys, bool kChannels>
struct ChunkStage {
  static constexpr int kPart = kStateChunk * kKeys * 2;
  static constexpr int kQueries = 2 * kPart, kWeights = 4 * kPart;
  static constexpr int kValues = kWeights + kChunkWeightBytes;
  static constexpr int kFactors = kValues + kStateChunk * kBlockSlice * 4;  // [3][kStateChunk]: e^G_t, b, e^(G_C - G_t)
  static constexpr int kEnd = kFactors + 3 * kStateChunk * 4;
  static constexpr int kFolded = kChannels ? kEnd : 0;  // k by which u is added to the state
  static constexpr int kDecays = kEnd + 2 * kPart;      // [kKeys]: e^G_C
  static constexpr int kBytes = kChannels ? kDecays + kKeys * 4 : kEnd, kCount = kChannels ? 1 : 2;
};

/// The value channels of a block and of a lane.
struct BlockChannels {
  int head, key_head;
  int first, slice;  // of the head
  int lane_channel;  // of the slice: the lane's first; its second is 8 further
};

/// Index of v in a stage. Rows that a warp reads at once are in different banks.
__device__ __forceinline__ int ValueIndex(int row, int channel) {
  return row * kBlockSlice + (channel ^ row / 2 % 4 * 8);
}

/// The first row of a lane's elements in a chunk: accumulator n has rows LaneRow() + 8 n and the next.
__device__ __forceinline__ int LaneRow() { return static_cast<int>(threadIdx.x) % 4 * 2; }

/// k and q of a chunk, and factors of its rows. u of rows in the tail is known: it takes the place of v, without S_0^T
/// k.
template <int kKeys>
__device__ __forceinline__ void LoadKeys(const RecurrencePlan& a, const BlockChannels& channels, const ChunkRows& rows,
                                         int thread, char* stage) {
  using Stage = ChunkStage<kKeys, false>;
#pragma unroll 4
  for (int i = thread; i < kStateChunk * kKeys / 4; i += kLoaders) {
    const int r = i / (kKeys / 4), c = i % (kKeys / 4), channel = channels.key_head * kKeys + 4 * c;
    const float4 key = rows.Load(r, a.key_channel + channel, a.key_in_row + channel),
                 query = rows.LoadOwn(r, a.query_channel + channel);
    StoreSplit<kKeys>(stage, stage + Stage::kPart, r, c, key);
    StoreSplit<kKeys>(stage + Stage::kQueries, stage + Stage::kQueries + Stage::kPart, r, c, query);
  }
  if (thread >= kStateChunk) return;
  auto* factors = reinterpret_cast<float*>(stage + Stage::kFactors);
  const auto decay_of = [&](int r) { return *rows.At(r, a.channels + channels.head, a.decay_in_row + channels.head); };
  const float decay = decay_of(min(thread, rows.end - 1));
  factors[thread] = thread < rows.begin ? 0.0f : __expf(decay);
  factors[2 * kStateChunk + thread] = __expf(decay_of(rows.end - 1) - decay);
}

/// As LoadKeys with decays of key channels.
template <int kKeys>
__device__ __forceinline__ void LoadScaledKeys(const RecurrencePlan& a, const BlockChannels& channels,
                                               const ChunkRows& rows, int thread, char* stage) {
  using Stage = ChunkStage<kKeys, true>;
#pragma unroll 2
  for (int i = thread; i < kStateChunk * kKeys / 4; i += kLoaders) {
    const int r = i / (kKeys / 4), c = i % (kKeys / 4), channel = channels.key_head * kKeys + 4 * c;
    const int decay_channel = a.channels + channel, decay_in_row = a.decay_in_row + channel;
    const float4 key = rows.Load(r, a.key_channel + channel, a.key_in_row + channel),
                 query = rows.LoadOwn(r, a.query_channel + channel),
                 decay = rows.Load(min(r, rows.end - 1), decay_channel, decay_in_row),
                 last = rows.Load(rows.end - 1, decay_channel, decay_in_row), zero{};
    const float4 factor = r < rows.begin ? zero : ExpOfDifference(decay, zero);
    StoreSplit<kKeys>(stage, stage + Stage::kPart, r, c, Multiply(key, factor));
    StoreSplit<kKeys>(stage + Stage::kQueries, stage + Stage::kQueries + Stage::kPart, r, c, Multiply(query, factor));
    StoreSplit<kKeys>(stage + Stage::kFolded, stage + Stage::kFolded + Stage::kPart, r, c,
                      Multiply(key, ExpOfDifference(last, decay)));
    if (r == 0) *reinterpret_cast<float4*>(stage + Stage::kDecays + 16 * c) = ExpOfDifference(last, zero);
  }
  if (thread >= kStateChunk) return;
  auto* factors = reinterpret_cast<float*>(stage + Stage::kFactors);
  factors[thread] = factors[2 * kStateChunk + thread] = 1.0f;
}

template <int kKeys, bool kCorrects, bool kChannels>
__device__ __forceinline__ void LoadChunk(const RecurrencePlan& a, const BlockChannels& channels, const ChunkRows& rows,
                                          const char* weights, char* stage) {
  using Stage = ChunkStage<kKeys, kChannels>;
  const int thread = static_cast<int>(threadIdx.x) % kLoaders;
  const int first = kCorrects ? 0 : kChunkWeightBytes / 2;  // without a correction u has no weights
  for (int at = first + thread * 16; at < kChunkWeightBytes; at += kLoaders * 16) {
    CopyAsync(SharedAddress(stage + Stage::kWeights + at), weights + at);
  }
  const int column = channels.head * a.value_size + channels.first;
  auto* values = reinterpret_cast<float*>(stage + Stage::kValues);
  for (int i = thread; i < kStateChunk * channels.slice / 4; i += kLoaders) {
    const int r = i / (channels.slice / 4), c = i % (channels.slice / 4) * 4;
    const float* from = rows.At(min(r, rows.end - 1), a.value_channel + column + c, a.update_in_row + column + c);
    CopyAsyncOrZero(SharedAddress(values + ValueIndex(r, c)), from, r < rows.end);
  }
  if (thread < kStateChunk) {
    auto* factors = reinterpret_cast<float*>(stage + Stage::kFactors);
    const bool own = thread >= rows.begin && thread < rows.end;
    factors[kStateChunk + thread] = own                   ? *rows.At(thread, a.channels + a.decays + channels.head, 0)
                                    : thread < rows.begin ? 1.0f
                                                          : 0.0f;
  }
  if constexpr (kChannels) {
    LoadScaledKeys<kKeys>(a, channels, rows, thread, stage);
  } else {
    LoadKeys<kKeys>(a, channels, rows, thread, stage);
  }
  WaitForAllCopies();
}

/// The state of 16 value channels: accumulators of [value channels, key channels].
template <int kKeys>
struct WarpState {
  float s[kKeys / 8][4];

  /// Calls visit(address, value) for this lane's values in a boundary.
  template <class Visit>
  __device__ __forceinline__ void Each(const RecurrencePlan& a, const BlockChannels& channels, float* boundary,
                                       const Visit& visit) {
    float* at =
        boundary + static_cast<int64_t>(channels.head) * kKeys * a.value_size + channels.first + channels.lane_channel;
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int c = 8 * n + static_cast<int>(threadIdx.x) % 4 * 2 + i % 2;
        visit(at + static_cast<int64_t>(c) * a.value_size + i / 2 * 8, s[n][i]);
      }
    }
  }
};

/// [value channels, rows] of a chunk.
using RowValues = float[kRowTiles][4];

/// Calls visit(accumulator, i, row from LaneRow(), second value channel) for the lane's elements.
template <class Visit>
__device__ __forceinline__ void EachElement(const Visit& visit) {
#pragma unroll
  for (int n = 0; n < kRowTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) visit(n, i, 8 * n + i % 2, i / 2);
  }
}

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
      LoadRowOperand<kKeys>(high, stage + Stage::kQueries, 16 * j, k);
      LoadRowOperand<kKeys>(low, stage + Stage::kQueries + Stage::kPart, 16 * j, k);
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
  for (int j = 0; j < kBlocks; ++j) {
    if constexpr (kCorrects) {
#pragma unroll
      for (int i = 0; i < j; ++i) MultiplyWeights(u[2 * j], u[2 * j + 1], operands[i], weights, j, i);
      const SplitOperand right_side = OperandOf(u[2 * j], u[2 * j + 1]);
#pragma unroll
      for (int i = 0; i < 4; ++i) u[2 * j][i] = u[2 * j + 1][i] = 0;
      MultiplyWeights(u[2 * j], u[2 * j + 1], right_side, weights, j, j);
    }
    operands[j] = OperandOf(u[2 * j], u[2 * j + 1]);
  }
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

/// Stores the results of a chunk's own rows, from this lane's first value channel on.
template <class T>
__device__ __forceinline__ void StoreResults(const RowValues& o, const ChunkRows& rows, T* to, int64_t stride) {
  const auto is_own = [&](int row) { return row >= rows.begin && row < rows.end; };
  to += LaneRow() * stride;
#pragma unroll
  for (int n = 0; n < kRowTiles; ++n, to += 8 * stride) {
    const int row = 8 * n + LaneRow();
    if (is_own(row)) to[0] = FromFloat<T>(o[n][0]), to[8] = FromFloat<T>(o[n][2]);
    if (is_own(row + 1)) to[stride] = FromFloat<T>(o[n][1]), to[stride + 8] = FromFloat<T>(o[n][3]);
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
  const auto value_at = [&](int t, int c) { return values_of[c][t * kBlockSlice]; };
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
  const int column = channels.head * a.value_size + channels.first + channels.lane_channel;
  const ChunkRows rows = RowsOfChunk(a, s, chunk);
  const int64_t at = (s.first_row + chunk * kStateChunk - s.position % kStateChunk) * a.out.stride + column;
  if (a.out.dtype == DType::kF32) {
    StoreResults(o, rows, static_cast<float*>(a.out.data) + at, a.out.stride);
  } else if (a.out.dtype == DType::kF16) {
    StoreResults(o, rows, static_cast<__half*>(a.out.data) + at, a.out.stride);
  } else {
    StoreResults(o, rows, static_cast<__nv_bfloat16*>(a.out.data) + at, a.out.stride);
  }
  if (chunk + 1 == ChunksOf(s)) StoreResults(u, rows, TailRow(a, s, 0) + a.update_in_row + column, a.row_floats);
  FoldChunk<kKeys, kChannels>(u, stage, state);
}

template <int kKeys, bool kCorrects, bool kChannels>
__global__ void __launch_bounds__(kLoaders + kMaxWarps * 32)
    ChunkStatesKernel(RecurrencePlan a, ChunkRange range, const char* weights) {
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
  const StagedState s = a.runs[blockIdx.y];
  const int end = min(range.first + range.count, ChunksOf(s));
  if (range.first >= end) return;
  const int64_t next = static_cast<int64_t>(a.value_heads) * kChunkWeightBytes;
  weights += blockIdx.y * range.count * next + static_cast<int64_t>(channels.head) * kChunkWeightBytes;
  using Stage = ChunkStage<kKeys, kChannels>;
  const auto stage = [&](int chunk) { return shared + chunk % Stage::kCount * Stage::kBytes; };
  const auto load = [&](int chunk) {
    LoadChunk<kKeys, kCorrects, kChannels>(a, channels, RowsOfChunk(a, s, chunk),
                                           weights + (chunk - range.first) * next, stage(chunk));
  };
  // Between two ranges the state is kept where the last boundary goes.
  const int last_slot = s.writes > 0 ? a.writes[s.first_write + s.writes - 1].slot : -1,
            from_slot = range.first > 0 ? last_slot : s.slot;
  WarpState<kKeys> state;
  const auto store = [&](int slot) {
    state.Each(a, channels, BoundaryOf(a, s, slot), [](float* at, float x) { *at = x; });
  };
  if (loads) {
    load(range.first);
  } else {
    float* boundary = from_slot < 0 ? nullptr : BoundaryOf(a, s, from_slot);
    state.Each(a, channels, boundary, [&](const float* at, float& x) { x = boundary != nullptr ? *at : 0.0f; });
  }
  __syncthreads();
  for (int chunk = range.first; chunk < end; ++chunk) {
    if (loads) {
      if (Stage::kCount > 1 && chunk + 1 < end) load(chunk + 1);
    } else {
      ComputeChunk<kKeys, kCorrects, kChannels>(a, s, channels, chunk, stage(chunk), &state);
      const int boundary = s.position - s.position % kStateChunk + (chunk + 1) * kStateChunk;
      if (const int slot = WrittenSlot(a, s, boundary); slot >= 0) store(slot);
    }
    __syncthreads();
    if constexpr (Stage::kCount > 1) continue;
    if (loads && chunk + 1 < end) load(chunk + 1);
    __syncthreads();
  }
  if (!loads && end < ChunksOf(s)) store(last_slot);
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

size_t ChunkWeightBytes(const RecurrencePlan& plan) {
  return static_cast<size_t>(plan.value_heads) * kChunkWeightBytes;
}

void LaunchChunkStates(const Launcher& on, const RecurrencePlan& plan, const ChunkRange& chunks, const void* weights) {
  const int warps = WarpsOf(on, plan), slices = plan.value_size / (16 * warps);
  const auto launch = [&](auto kernel, auto stage) {
    Launch(on, kernel, Grid(int64_t{plan.value_heads} * slices, plan.run_count), kLoaders + 32 * warps,
           static_cast<size_t>(stage.kCount * stage.kBytes), plan, chunks, static_cast<const char*>(weights));
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
