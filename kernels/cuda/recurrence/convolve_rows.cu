// The first steps of a recurrent mixer (kernels/recurrence.h): causal convolution, norms of queries and keys, decays
// and update weights; and the rows of the tail that no other kernel stores. A warp computes one unit of one row: a
// head's query or key, or a strip of channels, so no result depends on the other rows of the step.
#include "kernels/cuda/host_device.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/recurrence/tail_rows.cuh"

namespace ringside::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kStrip = 128;    // channels of a unit that is not a head
constexpr int kMaxStrips = 8;  // 32 RecurrenceShape::kMaxSize channels per lane
constexpr float kKeyNormEps = 1e-6f;

/// Units of a row, in this order.
struct RowUnits {
  int queries = 0, keys = 0;  // heads; only with a state
  int channels = 0;           // strips of the channels without a norm
  int decays = 0, weights = 0;

  RINGSIDE_HOST_DEVICE int count() const { return queries + keys + channels + decays + weights; }
};

/// Consecutive channels of the convolution.
struct ChannelRange {
  int first, count;
};

__device__ __forceinline__ float SigmoidOf(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ __forceinline__ float SoftplusOf(float x) { return x > 20.0f ? x : log1pf(expf(x)); }

/// A row of inputs of the convolution; data is null for zeros.
struct InputRow {
  const void* data;
  DType dtype;
  int64_t at;
};

/// The inputs at a position: from the step, the tail, or the window of the boundary.
__device__ __forceinline__ InputRow InputAt(const RecurrencePlan& a, const StagedState& s, int position) {
  if (position >= s.position) {
    return {a.x.data, a.x.dtype, (s.first_row + position - s.position) * a.x.stride};
  }
  const int boundary = s.position - s.position % kStateChunk;
  if (position >= boundary) return {TailRow(a, s, position), DType::kF32, 0};
  if (position < 0 || s.slot < 0) return {nullptr, DType::kF32, 0};
  const int64_t row = position - (boundary - (a.kernel - 1));
  return {BoundaryOf(a, s, s.slot), DType::kF32, a.state_floats + row * a.channels};
}

/// y = the convolution of a row's channels, a lane's in steps of 32. Stores the inputs: in the window of the boundary
/// after the row, and in the tail.
__device__ __forceinline__ void Convolve(const RecurrencePlan& a, const StagedState& s, int position,
                                         ChannelRange range, float (&y)[kMaxStrips]) {
  const int lane = threadIdx.x % 32;
  const int slot = (position + 1) % kStateChunk == 0 ? WrittenSlot(a, s, position + 1) : -1;
  float* window = slot < 0 ? nullptr : BoundaryOf(a, s, slot) + a.state_floats;
  float* tail = s.late == 0 && position >= s.tail_from ? TailRow(a, s, position) : nullptr;
#pragma unroll
  for (int j = 0; j < kMaxStrips; ++j) {
    const int c = range.first + lane + 32 * j;
    y[j] = 32 * j + lane < range.count && a.convolution_bias != nullptr ? a.convolution_bias[c] : 0.0f;
  }
  for (int tap = 0; tap < a.kernel; ++tap) {
    const InputRow input = InputAt(a, s, position - (a.kernel - 1) + tap);
#pragma unroll
    for (int j = 0; j < kMaxStrips; ++j) {
      const int c = range.first + lane + 32 * j;
      if (32 * j + lane >= range.count) break;
      const float x = input.data != nullptr ? LoadElement(input.data, input.dtype, input.at + c) : 0.0f;
      y[j] = fmaf(a.convolution[tap * a.channels + c], x, y[j]);
      if (window != nullptr && tap > 0) window[(tap - 1) * a.channels + c] = x;
      if (tail != nullptr && tap == a.kernel - 1) tail[c] = x;
    }
  }
}

/// G of 32 decays, of a chunk's rows from this one on if it is the segment's first there; with Mamba-2 also b.
__device__ __forceinline__ void SumDecays(const RecurrencePlan& a, const StagedState& s, int row, int first) {
  const int c = first + static_cast<int>(threadIdx.x) % 32;
  int position = s.position + row - s.first_row;
  if ((row > s.first_row && position % kStateChunk != 0) || c >= a.decays) return;
  const float bias = a.rate_bias[c], factor = a.rate[c];
  float sum = position % kStateChunk == 0 ? 0.0f : TailRow(a, s, position - 1)[a.decay_in_row + c];
  float next = LoadElement(a.rates.data, a.rates.dtype, row * a.rates.stride + c);
  for (const int end = s.first_row + s.rows; row < end; ++row) {
    const float rate = SoftplusOf(next + bias);
    if (row + 1 < end) next = LoadElement(a.rates.data, a.rates.dtype, (row + 1) * a.rates.stride + c);
    float* mixed = const_cast<float*>(MixedRow(a, row)) + a.channels;
    sum = fmaf(factor, rate, sum);
    mixed[c] = sum;
    if (a.corrects == 0) mixed[a.decays + c] = rate;
    if (++position % kStateChunk == 0) return;
  }
}

/// b of 32 heads.
__device__ __forceinline__ void WeighRow(const RecurrencePlan& a, int row, int first) {
  const int c = first + static_cast<int>(threadIdx.x) % 32;
  if (c >= a.value_heads) return;
  const float beta = LoadElement(a.betas.data, a.betas.dtype, row * a.betas.stride + c);
  const_cast<float*>(MixedRow(a, row))[a.channels + a.decays + c] = a.largest_beta * SigmoidOf(beta);
}

__global__ void __launch_bounds__(kWarps * 32) ConvolveRowsKernel(RecurrencePlan a, RowUnits units) {
  BeginDependentKernel();
  const int row = static_cast<int>(blockIdx.x), lane = static_cast<int>(threadIdx.x) % 32;
  int unit = static_cast<int>(blockIdx.y) * kWarps + static_cast<int>(threadIdx.x) / 32;
  if (unit >= units.count()) return;
  const StagedState s = a.segments[a.segment_of_row[row]];
  const int heads = units.queries + units.keys;
  if (unit >= heads + units.channels) {
    unit -= heads + units.channels;
    return unit < units.decays ? SumDecays(a, s, row, unit * 32) : WeighRow(a, row, (unit - units.decays) * 32);
  }
  const bool is_query = unit < units.queries, is_head = unit < heads;
  ChannelRange range{};
  if (is_head) {
    range = {is_query ? a.query_channel + unit * a.key_size : a.key_channel + (unit - units.queries) * a.key_size,
             a.key_size};
  } else {
    const int first = (unit - heads) * kStrip, all = a.has_state != 0 ? a.value_heads * a.value_size : a.channels;
    range = {(a.has_state != 0 ? a.value_channel : 0) + first, min(kStrip, all - first)};
  }
  float y[kMaxStrips];
  Convolve(a, s, s.position + row - s.first_row, range, y);
  float squares = 0;
  if (a.has_state != 0) {
#pragma unroll
    for (int j = 0; j < kMaxStrips; ++j) {
      if (32 * j + lane < range.count) y[j] *= SigmoidOf(y[j]), squares = fmaf(y[j], y[j], squares);
    }
  }
  float factor = 1;
  if (is_head && a.corrects != 0) {
    factor = 1.0f / sqrtf(SumOverWarp(squares) + kKeyNormEps);
    if (is_query) factor *= 1.0f / sqrtf(static_cast<float>(a.key_size));
  }
  const Tensor& to = a.has_state != 0 ? a.mixed : a.out;
#pragma unroll
  for (int j = 0; j < kMaxStrips; ++j) {
    if (32 * j + lane >= range.count) break;
    StoreElement(to.data, to.dtype, row * to.stride + range.first + lane + 32 * j, y[j] * factor);
  }
}

/// The rows of the tail of segments that replace rows which their first ones read (StagedState::late). Their u is
/// stored already.
__global__ void StoreTailKernel(RecurrencePlan a) {
  BeginDependentKernel();
  const StagedState s = a.segments[blockIdx.y];
  const int position = s.tail_from + static_cast<int>(blockIdx.x);
  if (s.late == 0 || position >= s.position + s.rows) return;
  const int64_t row = s.first_row + position - s.position;
  float* tail = TailRow(a, s, position);
  for (int c = threadIdx.x; c < a.channels; c += blockDim.x) {
    tail[c] = LoadElement(a.x.data, a.x.dtype, row * a.x.stride + c);
  }
  if (a.has_state == 0) return;
  const float* mixed = MixedRow(a, row);
  const int keys = a.key_heads * a.key_size;
  for (int c = threadIdx.x; c < keys; c += blockDim.x) tail[a.key_in_row + c] = mixed[a.key_channel + c];
  for (int c = threadIdx.x; c < a.decays; c += blockDim.x) tail[a.decay_in_row + c] = mixed[a.channels + c];
}

int Strips(int count, int size) { return (count + size - 1) / size; }

}  // namespace

void LaunchConvolveRows(const Launcher& on, const RecurrencePlan& plan) {
  RowUnits units{.channels = Strips(plan.channels, kStrip)};
  if (plan.has_state != 0) {
    units = {.queries = plan.key_heads,
             .keys = plan.key_heads,
             .channels = Strips(plan.value_heads * plan.value_size, kStrip),
             .decays = Strips(plan.decays, 32),
             .weights = plan.corrects != 0 ? Strips(plan.value_heads, 32) : 0};
  }
  Launch(on, ConvolveRowsKernel, Grid(plan.x.rows, Strips(units.count(), kWarps)), kWarps * 32, 0, plan, units);
}

void LaunchStoreTail(const Launcher& on, const RecurrencePlan& plan) {
  Launch(on, StoreTailKernel, Grid(kStateChunk, plan.segment_count), kBlockThreads, 0, plan);
}

}  // namespace ringside::cuda
