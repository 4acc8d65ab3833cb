// The first steps of a recurrent mixer (kernels/recurrence.h): causal convolution, norms of queries and keys, decays
// and update weights; and the rows of the tail that no other kernel stores. A warp computes one unit of one row: a
// head's query or key, or a strip of channels, so no result depends on the other rows of the step.
#include "kernels/cuda/host_device.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/recurrence/convolution.cuh"

namespace ringside::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kStrip = 128;   // channels of a unit that is not a head
constexpr int kTaps = 4;      // inputs of the convolution of most networks, which has its own kernel
constexpr int kRun = 16;      // rows of a warp in large steps
constexpr int kInFlight = 4;  // rows whose inputs are loaded together

/// Units of a row, in this order.
struct RowUnits {
  int queries = 0, keys = 0;  // heads; only with a state
  int channels = 0;           // strips of the channels without a norm
  int decays = 0, weights = 0;

  RINGSIDE_HOST_DEVICE int count() const { return queries + keys + channels + decays + weights; }
};

/// Where a row's inputs are stored, or null: in the window of the boundary after it, and in the tail.
struct StoredInputs {
  float* window;
  float* tail;
};
__device__ __forceinline__ StoredInputs StoredAt(const RecurrencePlan& a, const StagedState& s, int position) {
  return {WindowAfter(a, s, position), s.late == 0 && position >= s.tail_from ? TailRow(a, s, position) : nullptr};
}

/// y = a row's convolved channels, without the activation.
template <int kLanes>
__device__ __forceinline__ void Convolve(const RecurrencePlan& a, const StagedState& s, int position,
                                         const UnitChannels& unit, float (&y)[kLanes]) {
  const StoredInputs to = StoredAt(a, s, position);
  unit.Each<kLanes>([&](int j, int c) { y[j] = a.convolution_bias != nullptr ? a.convolution_bias[c] : 0.0f; });
  for (int first = 0; first < a.kernel; first += kTaps) {
    float inputs[kTaps][kLanes];
    const int from = position - (a.kernel - 1) + first;
    LoadInputs(a, s, unit, from, position + 1, inputs);
#pragma unroll
    for (int i = 0; i < kTaps; ++i) {
      const int tap = first + i;
      if (tap >= a.kernel) break;
      unit.Each<kLanes>([&](int j, int c) {
        const float x = inputs[i][j];
        y[j] = fmaf(a.convolution[tap * a.channels + c], x, y[j]);
        if (to.window != nullptr && tap > 0) to.window[(tap - 1) * a.channels + c] = x;
        if (to.tail != nullptr && tap == a.kernel - 1) to.tail[c] = x;
      });
    }
  }
}

/// As Convolve for consecutive rows with kTaps inputs each: weights and inputs stay in registers.
template <int kLanes>
class RunConvolution {
 public:
  __device__ __forceinline__ RunConvolution(const RecurrencePlan& a, const UnitChannels& unit) : a_(a), unit_(unit) {
    unit.Each<kLanes>([&](int j, int c) {
#pragma unroll
      for (int tap = 0; tap < kTaps; ++tap) weights_[tap][j] = a.convolution[tap * a.channels + c];
      bias_[j] = a.convolution_bias != nullptr ? a.convolution_bias[c] : 0.0f;
    });
  }
  /// For a segment's first row here.
  __device__ __forceinline__ void Begin(const StagedState& s, int position) {
    float before[kTaps - 1][kLanes];
    LoadInputs(a_, s, unit_, position - (kTaps - 1), position, before);
#pragma unroll
    for (int tap = 0; tap + 1 < kTaps; ++tap) {
      unit_.template Each<kLanes>([&](int j, int) { inputs_[tap + 1][j] = before[tap][j]; });
    }
  }
  /// `x`: the row's inputs.
  __device__ __forceinline__ void Next(const StagedState& s, int position, const float (&x)[kLanes],
                                       float (&y)[kLanes]) {
    const StoredInputs to = StoredAt(a_, s, position);
    unit_.template Each<kLanes>([&](int j, int c) {
      y[j] = bias_[j];
#pragma unroll
      for (int tap = 0; tap < kTaps; ++tap) {
        inputs_[tap][j] = tap + 1 < kTaps ? inputs_[tap + 1][j] : x[j];
        y[j] = fmaf(weights_[tap][j], inputs_[tap][j], y[j]);
        if (to.window != nullptr && tap > 0) to.window[(tap - 1) * a_.channels + c] = inputs_[tap][j];
      }
      if (to.tail != nullptr) to.tail[c] = inputs_[kTaps - 1][j];
    });
  }

 private:
  const RecurrencePlan& a_;
  const UnitChannels& unit_;
  float weights_[kTaps][kLanes], bias_[kLanes];
  float inputs_[kTaps][kLanes];
};

/// Stores a row's convolved channels after activation and norm.
template <int kLanes>
__device__ __forceinline__ void StoreRow(const RecurrencePlan& a, const UnitChannels& unit, int row,
                                         float (&y)[kLanes]) {
  ActivateRow(a, unit, y);
  const Tensor& to = a.has_state != 0 ? a.mixed : a.out;
  unit.Each<kLanes>([&](int j, int c) { StoreElement(to.data, to.dtype, row * to.stride + c, y[j]); });
}

/// G of 32 decays, of a chunk's rows from this one on if it is the segment's first there; with Mamba-2 also b.
__device__ __forceinline__ void SumDecays(const RecurrencePlan& a, const StagedState& s, int row, int first) {
  const int c = first + static_cast<int>(threadIdx.x) % 32;
  const int position = s.position + row - s.first_row;
  if ((row > s.first_row && position % kStateChunk != 0) || c >= a.decays) return;
  const float bias = a.rate_bias[c], factor = a.rate[c];
  float sum = position % kStateChunk == 0 ? 0.0f : TailRow(a, s, position - 1)[a.decay_in_row + c];
  constexpr int kTogether = 8;  // rows whose loads are in flight together
  const int end = row + min(s.first_row + s.rows - row, kStateChunk - position % kStateChunk);
  for (; row < end; row += kTogether) {
    uint32_t rates[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      rates[i] = LoadBits(a.rates.data, a.rates.dtype, min(row + i, end - 1) * a.rates.stride + c);
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      if (row + i >= end) break;
      const float rate = SoftplusOf(FloatOfBits(rates[i], a.rates.dtype) + bias);
      float* mixed = const_cast<float*>(MixedRow(a, row + i)) + a.channels;
      sum = fmaf(factor, rate, sum);
      mixed[c] = sum;
      if (a.corrects == 0) mixed[a.decays + c] = rate;
    }
  }
}

/// b of 32 heads.
__device__ __forceinline__ void WeighRow(const RecurrencePlan& a, int row, int first) {
  const int c = first + static_cast<int>(threadIdx.x) % 32;
  if (c >= a.value_heads) return;
  const float beta = LoadElement(a.betas.data, a.betas.dtype, row * a.betas.stride + c);
  const_cast<float*>(MixedRow(a, row))[a.channels + a.decays + c] = a.largest_beta * SigmoidOf(beta);
}

__device__ __forceinline__ UnitChannels ChannelsOf(const RecurrencePlan& a, const RowUnits& units, int unit) {
  if (unit < units.queries) return {a.query_channel + unit * a.key_size, a.key_size, true, true};
  unit -= units.queries;
  if (unit < units.keys) return {a.key_channel + unit * a.key_size, a.key_size, true, false};
  const int first = (unit - units.keys) * kStrip;
  if (a.has_state == 0) return {first, min(kStrip, a.channels - first)};
  return {a.value_channel + first, min(kStrip, a.value_heads * a.value_size - first)};
}

/// `run`: rows of a warp. kLanes: channels of a lane. kFour: the convolution has kTaps inputs.
template <int kLanes, bool kFour>
__global__ void __launch_bounds__(kWarps * 32) ConvolveRowsKernel(RecurrencePlan a, RowUnits units, int run) {
  BeginDependentKernel();
  const int first = static_cast<int>(blockIdx.x) * run, end = min(first + run, static_cast<int>(a.x.rows));
  const int n = static_cast<int>(blockIdx.y) * kWarps + static_cast<int>(threadIdx.x) / 32;
  if (n >= units.count()) return;
  StagedState s = a.segments[a.segment_of_row[first]];
  const auto each_row = [&](int begin, int past, const auto& visit) {
    for (int row = begin; row < past; ++row) {
      const bool begins = row == first || row == s.first_row + s.rows;
      if (row > first && begins) s = a.segments[a.segment_of_row[row]];
      visit(row, s.position + row - s.first_row, begins);
    }
  };
  if (const int of_rates = n - units.queries - units.keys - units.channels; of_rates >= 0) {
    return each_row(first, end, [&](int row, int, bool) {
      of_rates < units.decays ? SumDecays(a, s, row, of_rates * 32) : WeighRow(a, row, (of_rates - units.decays) * 32);
    });
  }
  const UnitChannels unit = ChannelsOf(a, units, n);
  float y[kLanes];
  if constexpr (kFour) {
    RunConvolution<kLanes> convolution(a, unit);
    for (int begin = first; begin < end; begin += kInFlight) {
      uint32_t bits[kInFlight][kLanes];
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        const int64_t at = min(begin + i, end - 1) * a.x.stride;
        unit.Each<kLanes>([&](int j, int c) { bits[i][j] = LoadBits(a.x.data, a.x.dtype, at + c); });
      }
      const auto next = [&](int row, int position, bool begins, const uint32_t(&bits_of_row)[kLanes]) {
        float inputs[kLanes];
        unit.Each<kLanes>([&](int j, int) { inputs[j] = FloatOfBits(bits_of_row[j], a.x.dtype); });
        if (begins) convolution.Begin(s, position);
        convolution.Next(s, position, inputs, y);
        StoreRow(a, unit, row, y);
      };
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        each_row(begin + i, min(begin + i + 1, end),
                 [&](int row, int position, bool begins) { next(row, position, begins, bits[i]); });
      }
    }
  } else {
    each_row(first, end, [&](int row, int position, bool) {
      Convolve(a, s, position, unit, y);
      StoreRow(a, unit, row, y);
    });
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
  const int64_t run = plan.x.rows > kRun * 8 ? kRun : 1;
  const auto launch = [&](auto kernel) {
    Launch(on, kernel, Grid((plan.x.rows + run - 1) / run, Strips(units.count(), kWarps)), kWarps * 32, 0, plan, units,
           static_cast<int>(run));
  };
  constexpr int kLanes = kStrip / 32, kMaxLanes = RecurrenceShape::kMaxSize / 32;
  const bool four = plan.kernel == kTaps;
  if (plan.key_size <= kStrip) {
    four ? launch(ConvolveRowsKernel<kLanes, true>) : launch(ConvolveRowsKernel<kLanes, false>);
  } else {
    four ? launch(ConvolveRowsKernel<kMaxLanes, true>) : launch(ConvolveRowsKernel<kMaxLanes, false>);
  }
}

void LaunchStoreTail(const Launcher& on, const RecurrencePlan& plan) {
  Launch(on, StoreTailKernel, Grid(kStateChunk, plan.segment_count), kBlockThreads, 0, plan);
}

}  // namespace ringside::cuda
