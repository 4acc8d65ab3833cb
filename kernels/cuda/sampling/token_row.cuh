// A row of logits during sampling, as seen by one thread of the blocks that share it: reads, edits, argmax, sums. Each
// warp has a run of consecutive ids, which it rereads from the L2 cache in every pass. Included by .cu files only.
//
// Weights are fixed-point, multiples of 2^-shift in 64 bits, so that sums depend neither on the number of blocks nor on
// the order of atomics. The shift is the largest for which the sum over the vocabulary fits: at 128k tokens the error
// of a row's sum is below 2^-30 of the best token's weight. Weights below 2^-(shift + 1) count as 0.
#pragma once

#include <climits>

#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/sampling/device_sampling_params.h"
#include "kernels/row_sampling_params.h"

namespace ringside::cuda {

using Sum = unsigned long long;

constexpr unsigned kAll = 0xffffffffu;  // lanes of a warp
constexpr float kInfinity = __builtin_huge_valf();

/// A token; id = INT_MAX if there is none.
struct RankedToken {
  float logit;
  int32_t id;
};
__device__ __forceinline__ bool IsBetter(const RankedToken& a, const RankedToken& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

class TokenRow {
 public:
  static constexpr int kThreads = 512, kWarps = kThreads / 32;      // per block
  static constexpr int kMaxRowBlocks = 8;                           // per row
  static constexpr int kWarpsOfLane = kMaxRowBlocks * kWarps / 32;  // warps per lane to read from an exchange, at most

  /// Values that the warps of a block publish to all warps of the row.
  struct Exchange {
    RankedToken best[kWarps];
    uint32_t flags[kWarps];
    Sum sums[kWarps];
    uint32_t ties[kWarps];
  };

  /// `exchanges` are two, in shared memory: a round writes one while the slowest warp may still read the other.
  __device__ TokenRow(const DeviceSamplingParams& params, float* logits, int vocab, Exchange* exchanges)
      : params_(params), logits_(logits), vocab_(vocab), exchanges_(exchanges) {
    blocks_ = ClusterBlocks(), rank_ = ClusterRank();
    run_ = (vocab + warps() * 128 - 1) / (warps() * 128) * 128;
    begin_ = min(vocab, warp() * run_), end_ = min(vocab, begin_ + run_);
    vectors_ = AllowsVectorAccess(logits);
    scale_ = __uint_as_float(static_cast<uint32_t>(127 + 63 - (32 - __clz(vocab))) << 23);
  }

  __device__ const DeviceSamplingParams& params() const { return params_; }
  __device__ int vocab() const { return vocab_; }
  __device__ int blocks() const { return blocks_; }
  __device__ int warps() const { return blocks_ * kWarps; }
  __device__ int warp() const { return rank_ * kWarps + static_cast<int>(threadIdx.x) / 32; }  // index within the row
  __device__ int lane() const { return static_cast<int>(threadIdx.x) % 32; }
  /// True for one thread of the row, its leader.
  __device__ bool speaks() const { return rank_ == 0 && threadIdx.x == 0; }
  __device__ int begin() const { return begin_; }  // of the warp's run
  __device__ int end() const { return end_; }
  __device__ float logit(int id) const { return logits_[id]; }
  __device__ float max() const { return max_; }

  /// Four adjacent logits of the warp's run; -inf past its end.
  __device__ __forceinline__ float4 Load(int id) const {
    if (vectors_ && id + 4 <= end_) return *reinterpret_cast<const float4*>(logits_ + id);
    return {id < end_ ? logits_[id] : -kInfinity, id + 1 < end_ ? logits_[id + 1] : -kInfinity,
            id + 2 < end_ ? logits_[id + 2] : -kInfinity, id + 3 < end_ ? logits_[id + 3] : -kInfinity};
  }
  /// Calls f(id, logit) for every token of this thread in ascending order, and for some ids past the end with -inf.
  template <class F>
  __device__ __forceinline__ void ForEach(const F& f) const {
    constexpr int kAtOnce = 4;
    for (int first = begin_ + 4 * lane(); first < end_; first += 128 * kAtOnce) {
      float4 logits[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) logits[j] = Load(first + 128 * j);
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int id = first + 128 * j;
        f(id, logits[j].x), f(id + 1, logits[j].y), f(id + 2, logits[j].z), f(id + 3, logits[j].w);
      }
    }
  }
  __device__ __forceinline__ Sum Fixed(float weight) const { return __float2ull_rn(weight * scale_); }
  __device__ __forceinline__ double Real(Sum sum) const { return static_cast<double>(sum) / scale_; }
  __device__ __forceinline__ float WeightAt(float logit, float inverse_temperature) const {
    return SoftmaxWeight(logit, max_, inverse_temperature);
  }

  /// The exchange of the next round.
  __device__ Exchange& NextExchange() { return exchanges_[round_++ % 2]; }
  /// Calls f(j, exchange, slot) for each warp that this lane reads: warps `first + j * step` that exist.
  template <class F>
  __device__ __forceinline__ void ReadWarps(const Exchange& own, int first, int step, const F& f) const {
#pragma unroll
    for (int j = 0; j < kWarpsOfLane; ++j) {
      const int w = first + j * step;
      if (w < warps()) f(j, *MapToBlock(&own, w / kWarps), w % kWarps);
    }
  }

  /// Steps 1 to 4: edits the logits and finds the best token. False, with the reason in `outcome`, if there is none.
  __device__ bool Prepare(RankedToken* best, SampledToken::Outcome* outcome) {
    if (params_.edits_logprobs) ReplaceByLogprobs();
    Edit();
    *best = FindBest({kInfinity, -1});
    max_ = best->logit;
    if ((flags_ & kBad) == 0 && best->id != INT_MAX) return true;
    const bool banned = (flags_ & (kBad | kTaken)) == kTaken;
    *outcome = banned ? SampledToken::Outcome::kNoTokenAllowed : SampledToken::Outcome::kNonFinite;
    return false;
  }

  /// Log of the sum of exponentials of the current logits.
  __device__ double LogSum() {
    Sum sum = 0;
    ForEach([&](int, float logit) { sum += Fixed(WeightAt(logit, 1.0f)); });
    return max_ + log(Real(SumOverRow(sum)));
  }

  /// The best token worse than `limit`, returned to all threads.
  __device__ RankedToken FindBest(const RankedToken& limit) {
    RankedToken best{-kInfinity, INT_MAX};
    bool bad = false;
    ForEach([&](int id, float logit) {
      bad |= !(logit < kInfinity);
      if (logit > best.logit && IsBetter(limit, {logit, id})) best = {logit, id};
    });
    if (bad) flags_ |= kBad;
    best = BestOfWarp(best);
    const uint32_t flags = __reduce_or_sync(kAll, flags_);
    Exchange& own = NextExchange();
    if (lane() == 0) own.best[warp() % kWarps] = best, own.flags[warp() % kWarps] = flags;
    ClusterSync();
    best = {-kInfinity, INT_MAX};
    uint32_t found = 0;
    ReadWarps(own, lane(), 32, [&](int, const Exchange& other, int slot) {
      const RankedToken theirs = other.best[slot];
      if (IsBetter(theirs, best)) best = theirs;
      found |= other.flags[slot];
    });
    flags_ = __reduce_or_sync(kAll, found);
    return BestOfWarp(best);
  }

  /// The sum over all threads, returned to all.
  __device__ Sum SumOverRow(Sum sum) {
    sum = SumOverWarp(sum);
    Exchange& own = NextExchange();
    if (lane() == 0) own.sums[warp() % kWarps] = sum;
    ClusterSync();
    sum = 0;
    ReadWarps(own, lane(), 32, [&](int, const Exchange& other, int slot) { sum += other.sums[slot]; });
    return SumOverWarp(sum);
  }

 private:
  enum : uint32_t { kBad = 1, kTaken = 2 };  // a logit was NaN or +inf; a ban removed a token that the model allows

  __device__ static RankedToken BestOfWarp(RankedToken best) {
    for (int step = 16; step > 0; step /= 2) {
      const RankedToken other{__shfl_xor_sync(kAll, best.logit, step), __shfl_xor_sync(kAll, best.id, step)};
      if (IsBetter(other, best)) best = other;
    }
    return best;
  }

  // Each block edits its own tokens.
  __device__ bool IsOurs(int id) const { return static_cast<unsigned>(id - rank_ * kWarps * run_) < kWarps * run_; }
  template <class T, class F>
  __device__ void EditEach(const T* items, int count, const F& edit) {
    if (count == 0) return;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) edit(items[i]);
    __syncthreads();
  }
  // Non-finite logits are left for detection later; an overflowing edit must not look like one.
  template <class F>
  __device__ void EditOne(int id, const F& change) {
    if (!IsOurs(id)) return;
    constexpr double kLimit = 3.40282346638528859812e+38;
    const float logit = logits_[id];
    if (!(logit > -kInfinity && logit < kInfinity)) return;
    logits_[id] = static_cast<float>(fmin(fmax(change(double{logit}), -kLimit), kLimit));
  }
  /// Replaces the logits by log probabilities. An unusable row is left unchanged.
  __device__ void ReplaceByLogprobs() {
    const RankedToken best = FindBest({kInfinity, -1});
    if ((flags_ & kBad) != 0 || best.id == INT_MAX) return;
    max_ = best.logit;
    const double log_sum = LogSum();
    for (int id = begin_ + lane(); id < end_; id += 32) EditOne(id, [&](double logit) { return logit - log_sum; });
    __syncthreads();
  }
  __device__ void Edit() {
    const auto ban = [&](int id) {
      const float logit = logits_[id];
      flags_ |= (logit < kInfinity ? 0 : kBad) | (logit == -kInfinity ? 0 : kTaken);
      logits_[id] = -kInfinity;
    };
    EditEach(params_.banned, params_.bans, [&](int id) {
      if (IsOurs(id)) ban(id);
    });
    if (params_.allowed != nullptr) {
      const int first = rank_ * kWarps * run_, last = min(vocab_, first + kWarps * run_);
      for (int id = first + static_cast<int>(threadIdx.x); id < last; id += kThreads) {
        if ((params_.allowed[id / 32] >> (id % 32) & 1) == 0) ban(id);
      }
      __syncthreads();
    }
    EditEach(params_.bias, params_.biases,
             [&](const BiasedId& item) { EditOne(item.id, [&](double logit) { return logit + item.bias; }); });
    const double r = params_.repetition_penalty;
    EditEach(params_.repeated, params_.repeats,
             [&](int id) { EditOne(id, [&](double logit) { return logit < 0 ? logit * r : logit / r; }); });
    EditEach(params_.counted, params_.counts, [&](const CountedId& item) {
      EditOne(item.id,
              [&](double logit) { return logit - params_.presence_penalty - params_.frequency_penalty * item.count; });
    });
  }

  const DeviceSamplingParams& params_;
  float* const logits_;
  const int vocab_;
  Exchange* const exchanges_;
  int blocks_, rank_;
  int run_, begin_, end_;  // ids per warp, at most; this warp's
  bool vectors_;           // whether 16-byte loads are allowed
  float scale_;            // 2^shift
  float max_ = 0;
  uint32_t flags_ = 0;
  int round_ = 0;
};

}  // namespace ringside::cuda
