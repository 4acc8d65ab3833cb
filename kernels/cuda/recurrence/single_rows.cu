// A recurrent mixer of segments with one row each (decode), in one kernel: convolution, norms, decays and state. A
// block computes a slice of a value head's channels; the first four warps convolve its query, key and values and
// compute G and b. Convolution and state are those of convolve_rows.cu and update_state.cu, with equal bits.
#include <algorithm>

#include "kernels/cuda/recurrence/convolution.cuh"
#include "kernels/cuda/recurrence/state_tile.cuh"

namespace ringside::cuda {
namespace {

constexpr int kThreads = 128 / kPart * kMostSlice / 4;  // for the state of a key of 128 channels
constexpr int kResidentBlocks = 3;                      // per SM, as far as shared memory allows

/// The work of a warp before the state: channels of the convolution, or G and b.
enum class WarpWork { kQuery, kKey, kValues, kRates, kNothing };

__device__ __forceinline__ WarpWork WorkOfWarp() {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  return warp < 4 ? static_cast<WarpWork>(warp) : WarpWork::kNothing;
}

__device__ __forceinline__ UnitChannels ChannelsOfWarp(const RecurrencePlan& a, const StateBlock& b, WarpWork work) {
  const int head = b.key_head * a.key_size;
  if (work == WarpWork::kQuery) return {a.query_channel + head, a.key_size, true, true};
  if (work == WarpWork::kKey) return {a.key_channel + head, a.key_size, true, false};
  if (work == WarpWork::kValues) return {a.value_channel + b.head * a.value_size + b.column, b.width};
  return {};
}

/// A row's convolution by a warp, in two parts: the inputs before the row, which the preceding kernel does not write,
/// and its own. With decays of key channels also G of the warp's channels.
template <int kLanes>
class RowConvolution {
 public:
  __device__ __forceinline__ RowConvolution(const RecurrencePlan& a, const StateBlock& b, WarpWork work)
      : a_(a), b_(b), work_(work), unit_(ChannelsOfWarp(a, b, work)) {}

  /// Sums the inputs before the row.
  __device__ __forceinline__ void Begin() {
    unit_.Each<kLanes>([&](int j, int c) {
      y_[j] = a_.convolution_bias != nullptr ? a_.convolution_bias[c] : 0.0f;
      weight_[j] = a_.convolution[(a_.kernel - 1) * a_.channels + c];
    });
    constexpr int kTogether = 3;  // inputs that are loaded together
    for (int first = 0; first + 1 < a_.kernel; first += kTogether) {
      float x[kTogether][kLanes], weights[kTogether][kLanes];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int tap = min(first + i, a_.kernel - 2);
        unit_.Each<kLanes>([&](int j, int c) { weights[i][j] = a_.convolution[tap * a_.channels + c]; });
      }
      LoadInputs(a_, b_.s, unit_, b_.s.position - (a_.kernel - 1) + first, b_.s.position, x);
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        if (first + i + 1 >= a_.kernel) break;
        unit_.Each<kLanes>([&](int j, int) { y_[j] = fmaf(weights[i][j], x[i][j], y_[j]); });
      }
    }
    if (!has_decays()) return;
    const float* before = b_.s.position % kStateChunk != 0 ? TailRow(a_, b_.s, b_.s.position - 1) : nullptr;
    unit_.Each<kLanes>([&](int j, int c) {
      const int decay = DecayOf(c);
      decay_[j] = before != nullptr ? before[a_.decay_in_row + decay] : 0.0f;
      rate_bias_[j] = a_.rate_bias[decay], rate_[j] = a_.rate[decay];
    });
  }

  /// Adds the row's input, and stores it; places q, k and v in shared memory, and stores k and G in the tail.
  __device__ __forceinline__ void Finish(const StateTile& t, float* shared) {
    const int64_t at = b_.s.first_row * a_.x.stride, rates = b_.s.first_row * a_.rates.stride;
    uint32_t x_bits[kLanes], rate_bits[kLanes];
    unit_.Each<kLanes>([&](int j, int c) { x_bits[j] = LoadBits(a_.x.data, a_.x.dtype, at + c); });
    if (has_decays()) {
      unit_.Each<kLanes>(
          [&](int j, int c) { rate_bits[j] = LoadBits(a_.rates.data, a_.rates.dtype, rates + DecayOf(c)); });
    }
    float x[kLanes];
    unit_.Each<kLanes>([&](int j, int) { x[j] = FloatOfBits(x_bits[j], a_.x.dtype); });
    unit_.Each<kLanes>([&](int j, int) { y_[j] = fmaf(weight_[j], x[j], y_[j]); });
    ActivateRow(a_, unit_, y_);
    const int offset = b_.s.position % kStateChunk;
    float* to = shared + (work_ == WarpWork::kQuery ? t.queries
                          : work_ == WarpWork::kKey ? offset * t.key_stride
                                                    : t.values);
    unit_.Each<kLanes>([&](int j, int c) { to[c - unit_.first] = y_[j]; });
    if (has_decays()) AddDecays(t, rate_bits, offset, shared);
    if (work_ != WarpWork::kValues && !b_.first_of_key) return;
    float* tail = TailRow(a_, b_.s, b_.s.position);
    unit_.Each<kLanes>([&](int j, int c) {
      tail[c] = x[j];
      if (work_ == WarpWork::kKey) tail[a_.key_in_row + c - a_.key_channel] = y_[j];
    });
    if (float* window = WindowAfter(a_, b_.s, b_.s.position); window != nullptr) StoreWindow(x, window);
  }

 private:
  __device__ __forceinline__ bool has_decays() const { return a_.channel_decays != 0 && unit_.is_head; }
  /// The decay of a channel of a query or key.
  __device__ __forceinline__ int DecayOf(int c) const {
    return c - (work_ == WarpWork::kQuery ? a_.query_channel : a_.key_channel);
  }

  /// G of the key's channels, and q or k times e^G.
  __device__ __forceinline__ void AddDecays(const StateTile& t, const uint32_t (&rates)[kLanes], int offset,
                                            float* shared) {
    float* decayed = shared + t.decayed + (work_ == WarpWork::kQuery ? t.key_stride : 0);
    float* decays = shared + t.decays + offset * t.key_stride;
    float* tail = b_.first_of_key ? TailRow(a_, b_.s, offset) + a_.decay_in_row : nullptr;
    unit_.Each<kLanes>([&](int j, int c) {
      const float rate = FloatOfBits(rates[j], a_.rates.dtype);
      const float decay = fmaf(rate_[j], SoftplusOf(rate + rate_bias_[j]), decay_[j]);
      decayed[c - unit_.first] = y_[j] * expf(decay);
      if (work_ != WarpWork::kKey) return;
      decays[c - unit_.first] = decay;
      if (tail != nullptr) tail[DecayOf(c)] = decay;
    });
  }

  /// Stores the inputs before the boundary that follows the row.
  __device__ __forceinline__ void StoreWindow(const float (&x)[kLanes], float* window) {
    for (int tap = 1; tap + 1 < a_.kernel; ++tap) {
      float input[1][kLanes];
      LoadInputs(a_, b_.s, unit_, b_.s.position - (a_.kernel - 1) + tap, b_.s.position, input);
      unit_.Each<kLanes>([&](int j, int c) { window[(tap - 1) * a_.channels + c] = input[0][j]; });
    }
    if (a_.kernel < 2) return;
    unit_.Each<kLanes>([&](int j, int c) { window[(a_.kernel - 2) * a_.channels + c] = x[j]; });
  }

  const RecurrencePlan& a_;
  const StateBlock& b_;
  const WarpWork work_;
  const UnitChannels unit_;
  float y_[kLanes], weight_[kLanes];
  float decay_[kLanes], rate_bias_[kLanes], rate_[kLanes];  // G of the row before, with decays of key channels
};

/// b, and G of a head, by one thread.
class RowRates {
 public:
  __device__ __forceinline__ RowRates(const RecurrencePlan& a, const StateBlock& b) : a_(a), b_(b) {
    if (a.channel_decays != 0) return;
    if (b.s.position % kStateChunk != 0) before_ = TailRow(a, b.s, b.s.position - 1)[a.decay_in_row + b.head];
    bias_ = a.rate_bias[b.head], rate_ = a.rate[b.head];
  }
  __device__ __forceinline__ void Finish(const StateTile& t, float* shared) const {
    const int64_t row = b_.s.first_row;
    const uint32_t beta =
        a_.corrects != 0 ? LoadBits(a_.betas.data, a_.betas.dtype, row * a_.betas.stride + b_.head) : 0;
    float step = 0, factor = 1;
    if (a_.channel_decays == 0) {
      const uint32_t rate = LoadBits(a_.rates.data, a_.rates.dtype, row * a_.rates.stride + b_.head);
      step = SoftplusOf(FloatOfBits(rate, a_.rates.dtype) + bias_);
      const float decay = fmaf(rate_, step, before_);
      const int offset = b_.s.position % kStateChunk;
      factor = expf(decay);
      shared[t.decays + offset] = decay;
      if (b_.first_of_head) TailRow(a_, b_.s, offset)[a_.decay_in_row + b_.head] = decay;
    }
    shared[t.factors] = factor;
    shared[t.factors + 1] = a_.corrects != 0 ? a_.largest_beta * SigmoidOf(FloatOfBits(beta, a_.betas.dtype)) : step;
  }

 private:
  const RecurrencePlan& a_;
  const StateBlock& b_;
  float before_ = 0, bias_ = 0, rate_ = 0;
};

/// The factors of u_i in the row's u and o: [2][kStateChunk]. Four threads per i, with the sums of
/// WeighUpdate (update_state.cu).
__device__ __forceinline__ void WeighRow(const RecurrencePlan& a, const StateTile& t, int row, float* shared) {
  const int part = static_cast<int>(threadIdx.x) % 4, i_of_warp = static_cast<int>(threadIdx.x) % 32 / 4;
  const float *key = shared + row * t.key_stride + part, *query = shared + t.queries + part;
  const float* decays = shared + t.decays + row * t.key_stride + part;
  for (int first = static_cast<int>(threadIdx.x) / 32 * 8; first <= row; first += static_cast<int>(blockDim.x) / 4) {
    const int i = first + i_of_warp;
    const float* key_i = shared + i * t.key_stride + part;
    const float* decays_i = shared + t.decays + i * t.key_stride + part;
    float by_key = 0, by_query = 0;
#pragma unroll 8
    for (int c = 0; c < t.parts * kPart; c += 4) {
      float k = key_i[c];
      if (a.channel_decays != 0) k *= expf(decays[c] - decays_i[c]);
      by_key = fmaf(k, key[c], by_key), by_query = fmaf(k, query[c], by_query);
    }
    by_key += __shfl_xor_sync(0xffffffffu, by_key, 1), by_query += __shfl_xor_sync(0xffffffffu, by_query, 1);
    by_key += __shfl_xor_sync(0xffffffffu, by_key, 2), by_query += __shfl_xor_sync(0xffffffffu, by_query, 2);
    if (part != 0 || i > row) continue;
    const float factor = a.channel_decays != 0 ? 1.0f : expf(shared[t.decays + row] - shared[t.decays + i]);
    shared[t.weights + i] = by_key * factor;
    shared[t.weights + kStateChunk + i] = by_query * factor;
  }
}

template <int kLanes, int kThreads, int kResident>
__global__ void __launch_bounds__(kThreads, kResident) SingleRowsKernel(RecurrencePlan a, StateTile t) {
  extern __shared__ float4 shared_vectors[];
  auto* shared = reinterpret_cast<float*>(shared_vectors);
  TriggerProgrammaticLaunch();
  if (a.early == 0) GridDependencySync();
  StateBlock b = BlockOf(a, t);
  const WarpWork work = WorkOfWarp();
  float4 state[kPart];
  LoadState(a, b, state);
  FetchTail(a, t, b, shared);
  ClearPadding(a, t, shared);
  SetGroup(&b);
  RowConvolution<kLanes> convolution(a, b, work);
  const bool rates = work == WarpWork::kRates && threadIdx.x % 32 == 0;
  convolution.Begin();
  const RowRates row_rates(a, b);
  if (a.early != 0) GridDependencySync();
  convolution.Finish(t, shared);
  if (rates) row_rates.Finish(t, shared);
  WaitForAllCopies();
  __syncthreads();
  const int row = b.s.position % kStateChunk, part = b.part * kPart;
  WeighRow(a, t, row, shared);
  if (b.active) {
    const float *key = shared + row * t.key_stride + part, *query = shared + t.queries + part;
    if (a.channel_decays != 0) key = shared + t.decayed + part, query = key + t.key_stride;
    MultiplyStatePart(t, state, key, query, shared + t.partial + b.part * 2 * t.slice + 4 * b.lane);
  }
  __syncthreads();
  SumStateParts(t, b, shared + t.partial, 1, shared + t.from_state);
  SumUpdates(a, t, b, row, 1, shared + t.weights, shared + t.weights + kStateChunk, shared);
  __syncthreads();
  const RowGroup group{0, 1, row};
  SolveRows(a, t, b, group, shared);
  FinishRows(a, t, b, group, b.s.first_row, 0, shared);  // each thread stores the results of the u that it solved
  if (row + 1 < kStateChunk) return;
  __syncthreads();
  FoldChunk(a, t, b, state, shared);
  if (const int slot = WrittenSlot(a, b.s, b.s.position + 1); slot >= 0) StoreState(a, b, state, slot);
}

}  // namespace

void LaunchSingleRows(const Launcher& on, const RecurrencePlan& plan) {
  const StateTile tile = TileFor(on, plan, 1, 1);
  const dim3 grid = StateGrid(plan, tile);
  // Threads without a part of the state weigh rows.
  const int64_t blocks = int64_t{grid.x} * grid.y * grid.z;
  const bool few = blocks <= on.multiprocessors;
  const auto launch = [&](auto kernel, int threads) { Launch(on, kernel, grid, threads, tile.bytes(), plan, tile); };
  if (plan.key_size > 128) return launch(SingleRowsKernel<8, 2 * kThreads, 1>, 2 * kThreads);
  few ? launch(SingleRowsKernel<4, 2 * kThreads, 1>, 2 * kThreads)
      : launch(SingleRowsKernel<4, kThreads, kResidentBlocks>, kThreads);
}

}  // namespace ringside::cuda
