// Sampling on the device, as defined in kernels/row_sampling_params.h: one cluster of blocks per row, one kernel for
// all rows. Work that a row's parameters do not ask for is skipped: greedy sampling is a single pass.
#include <algorithm>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/sampling/token_cut.cuh"

namespace ringside::cuda {
namespace {

class RowSampler {
 public:
  struct Shared {
    TokenRow::Exchange exchanges[2];
    TokenCut::Shared cut;
    TokenLogprob top[limits::kMaxBestTokens];  // filled by the leader's block
  };

  __device__ RowSampler(const DeviceSamplingParams& params, float* logits, int vocab, Shared& shared, SampledToken* out,
                        int32_t* id)
      : params_(params), row_(params, logits, vocab, shared.exchanges), shared_(shared), out_(out), id_(id) {
    least_weight_ = __double2float_ru(params.min_p);
  }

  __device__ void Choose() {
    RankedToken best;
    SampledToken::Outcome outcome = SampledToken::Outcome::kChosen;
    if (!row_.Prepare(&best, &outcome)) {
      // The next step may read the id before the host sees the failure.
      if (row_.speaks()) Write(outcome, {0, 0});
      return;
    }
    if (params_.logprobs >= 0) RankBest(best);
    if (!params_.greedy) {
      Draw(TokenCut(row_, shared_.cut).Cut());
    } else if (row_.speaks()) {
      Write(outcome, params_.scored < 0 ? best : RankedToken{row_.logit(params_.scored), params_.scored});
    }
    if (row_.warp() == 0 && row_.lane() < tops_) out_->top[row_.lane()] = shared_.top[row_.lane()];
  }

 private:
  __device__ float LogprobOf(float logit) const { return static_cast<float>(logit - log_sum_); }
  // A single store at the very end: host memory is far away, and a barrier after it would wait for the store.
  __device__ void Write(SampledToken::Outcome outcome, const RankedToken& token) const {
    static_assert(offsetof(SampledToken, id) == 4 && offsetof(SampledToken, logprob) == 8 &&
                  offsetof(SampledToken, tops) == 12 && offsetof(SampledToken, top) == 16);
    const float logprob = params_.logprobs >= 0 ? LogprobOf(token.logit) : 0.0f;
    *reinterpret_cast<int4*>(out_) = {static_cast<int32_t>(outcome), token.id, __float_as_int(logprob), tops_};
    *id_ = token.id;
  }

  // Step 5.
  __device__ void RankBest(RankedToken best) {
    if (!params_.edits_logprobs) log_sum_ = row_.LogSum();
    for (; tops_ < params_.logprobs && best.id != INT_MAX; ++tops_) {
      if (row_.speaks()) shared_.top[tops_] = {best.id, LogprobOf(best.logit)};
      best = row_.FindBest(best);
    }
  }

  // Steps 7 to 9. 0 if the token is not kept; `ties` is the number of tokens before it that equal the last kept one.
  __device__ __forceinline__ Sum KeptWeight(const KeptTokens& kept, float logit, uint32_t ties) const {
    const bool keeps = logit > kept.last || (logit == kept.last && ties < kept.tied);
    const float weight = row_.WeightAt(logit, params_.inverse_temperature);
    return keeps && weight >= least_weight_ ? row_.Fixed(weight) : 0;
  }

  /// Every warp publishes the sum of its run and determines whether the draw falls into its run.
  __device__ void Draw(const KeptTokens& kept) {
    Sum sum = 0;
    uint32_t ties = 0;
    row_.ForEach([&](int, float logit) {
      ties += logit == kept.last ? 1 : 0;
      sum += KeptWeight(kept, logit, kept.tied);  // tied tokens are added below
    });
    sum = SumOverWarp(sum), ties = __reduce_add_sync(kAll, ties);
    TokenRow::Exchange& own = row_.NextExchange();
    const int slot = row_.warp() % TokenRow::kWarps;
    if (row_.lane() == 0) own.sums[slot] = sum, own.ties[slot] = ties;
    ClusterSync();

    // Lane l handles the runs of warps 4 l to 4 l + 3: first their ties, then their kept weights.
    constexpr int kEach = TokenRow::kWarpsOfLane;
    uint32_t run_ties[kEach] = {}, all_ties = 0;
    Sum run_sums[kEach] = {}, all = 0;
    row_.ReadWarps(own, row_.lane() * kEach, 1, [&](int j, const TokenRow::Exchange& other, int from) {
      run_sums[j] = other.sums[from];
      run_ties[j] = other.ties[from];
      all_ties += run_ties[j];
    });
    uint32_t ties_before = ScanOverWarp(all_ties) - all_ties;
    const Sum each = KeptWeight(kept, kept.last, 0);
    for (int j = 0; j < kEach; ++j) {
      const uint32_t left = kept.tied > ties_before ? kept.tied - ties_before : 0, in_run = run_ties[j];
      run_sums[j] += each * min(left, in_run);
      all += run_sums[j];
      run_ties[j] = ties_before;  // from here on: ties before the run
      ties_before += in_run;
    }
    Sum before = ScanOverWarp(all);
    const Sum whole = __shfl_sync(kAll, before, 31);
    before -= all;
    const Sum target = min(whole - 1, static_cast<Sum>(params_.uniform * static_cast<double>(whole)));
    for (int j = 0; j < kEach; ++j) {
      const unsigned lanes = __ballot_sync(kAll, before <= target && target < before + run_sums[j]);
      const int lane = __ffs(static_cast<int>(lanes)) - 1;
      if (lanes != 0 && lane * kEach + j == row_.warp()) {
        Walk(kept, target - __shfl_sync(kAll, before, lane), __shfl_sync(kAll, run_ties[j], lane));
      }
      before += run_sums[j];
    }
  }

  /// The warp whose run contains the draw finds the token at which the running sum first exceeds `target`.
  __device__ void Walk(const KeptTokens& kept, Sum target, uint32_t ties) const {
    Sum before = 0;
    for (int first = row_.begin(); first < row_.end(); first += 128) {
      const int id = first + 4 * row_.lane();  // and the next three
      const float4 four = row_.Load(id);
      const float logits[4] = {four.x, four.y, four.z, four.w};
      uint32_t own_ties = 0;
      for (int j = 0; j < 4; ++j) own_ties += logits[j] == kept.last ? 1 : 0;
      const uint32_t ties_here = ScanOverWarp(own_ties);
      uint32_t ties_before = ties + ties_here - own_ties;
      Sum weights[4], own = 0;
      for (int j = 0; j < 4; ++j) {
        weights[j] = KeptWeight(kept, logits[j], ties_before);
        own += weights[j];
        ties_before += logits[j] == kept.last ? 1 : 0;
      }
      Sum sum = before + ScanOverWarp(own);
      const unsigned beyond = __ballot_sync(kAll, sum > target);
      if (beyond != 0) {
        if (row_.lane() != __ffs(static_cast<int>(beyond)) - 1) return;
        int j = 3;  // the lane's first token whose running sum exceeds the target
        while (j > 0 && sum - weights[j] > target) sum -= weights[j--];
        return Write(SampledToken::Outcome::kChosen, {logits[j], id + j});
      }
      before = __shfl_sync(kAll, sum, 31);
      ties += __shfl_sync(kAll, ties_here, 31);
    }
  }

  const DeviceSamplingParams& params_;
  TokenRow row_;
  Shared& shared_;
  SampledToken* const out_;
  int32_t* const id_;
  double log_sum_ = 0;
  int32_t tops_ = 0;
  float least_weight_;  // min_p
};

__global__ void __launch_bounds__(TokenRow::kThreads, 2)
    SampleKernel(Tensor logits, const DeviceSamplingParams* row_params, SampledToken* sampled, int32_t* ids) {
  __shared__ RowSampler::Shared shared;
  __shared__ DeviceSamplingParams params;
  BeginDependentKernel();
  const int row = static_cast<int>(blockIdx.y);
  if (threadIdx.x == 0) params = row_params[row];
  __syncthreads();
  RowSampler(params, static_cast<float*>(logits.data) + row * logits.stride, static_cast<int>(logits.cols), shared,
             &sampled[row], &ids[row])
      .Choose();
  ClusterSync();  // other blocks may still read this block's shared memory
}

}  // namespace

void LaunchSampleTokens(const Launcher& on, Tensor logits, const DeviceSamplingParams* row_params,
                        SampledToken* sampled, int32_t* ids) {
  // With many rows each gets fewer blocks, so that all are resident, two per SM.
  Launcher clustered = on;
  clustered.cluster = std::min(on.largest_cluster, TokenRow::kMaxRowBlocks);
  while (clustered.cluster > 1 && logits.rows * clustered.cluster > 2 * on.multiprocessors) clustered.cluster /= 2;
  Launch(clustered, SampleKernel, Grid(clustered.cluster, logits.rows), TokenRow::kThreads, 0, logits, row_params,
         sampled, ids);
}

}  // namespace ringside::cuda
