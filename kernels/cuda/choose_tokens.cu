// Choosing tokens on the device, by the definition in kernels/token_choice.h: a cluster of blocks a row, one kernel for
// all rows. What the row's choice does not ask for is not done: a greedy one is a single pass.
#include <algorithm>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/token_cut.cuh"

namespace ringside::cuda {
namespace {

constexpr int kMostBlocks = 8;  // of a cluster

class Chooser {
 public:
  struct Shared {
    TokenRow::Exchange exchanges[2];
    TokenCut::Shared cut;
  };

  __device__ Chooser(const ChoiceRow& choice, float* logits, int vocab, Shared& shared, ChosenToken* out)
      : choice_(choice), row_(choice, logits, vocab, shared.exchanges), shared_(shared), out_(out) {}

  __device__ void Choose() {
    RankedToken best;
    ChosenToken::Outcome outcome = ChosenToken::Outcome::kChosen;
    const bool found = row_.Prepare(&best, &outcome);
    if (row_.speaks()) out_->outcome = outcome;
    if (!found) return;
    if (choice_.logprobs >= 0) RankBest(best);
    if (!choice_.greedy) return Draw(TokenCut(row_, shared_.cut).Cut());
    if (row_.speaks()) Write(best);
  }

 private:
  __device__ float LogprobOf(float logit) const { return static_cast<float>(logit - log_sum_); }
  __device__ void Write(const RankedToken& token) const {
    out_->id = token.id;
    out_->logprob = choice_.logprobs >= 0 ? LogprobOf(token.logit) : 0.0f;
    out_->tops = tops_;
  }

  // Step 5.
  __device__ void RankBest(RankedToken best) {
    Sum sum = 0;
    row_.ForEach([&](int, float logit) { sum += row_.Fixed(row_.WeightAt(logit, 1.0f)); });
    log_sum_ = row_.max() + log(row_.Real(row_.SumOverRow(sum)));
    for (; tops_ < choice_.logprobs && best.id != INT_MAX; ++tops_) {
      if (row_.speaks()) out_->top[tops_] = {best.id, LogprobOf(best.logit)};
      best = row_.FindBest(best);
    }
  }

  // Steps 7 to 9. 0 if the token is not kept; `ties` tokens equal to the last kept one are before it.
  __device__ __forceinline__ Sum KeptWeight(const KeptTokens& kept, float logit, uint32_t ties) const {
    if (!(logit > kept.last || (logit == kept.last && ties < kept.tied))) return 0;
    const float weight = row_.WeightAt(logit, choice_.inverse_temperature);
    return weight >= choice_.min_p ? row_.Fixed(weight) : 0;
  }

  /// Every warp says what its run holds, and sees for itself in whose run the draw lies.
  __device__ void Draw(const KeptTokens& kept) {
    Sum sum = 0;
    uint32_t ties = 0;
    row_.ForEach([&](int, float logit) {
      if (logit == kept.last) ++ties;
      if (logit > kept.last) sum += KeptWeight(kept, logit, 0);
    });
    sum = SumOverWarp(sum), ties = __reduce_add_sync(kAll, ties);
    TokenRow::Exchange& own = row_.NextExchange();
    const int slot = row_.warp() % TokenRow::kWarps;
    if (row_.lane() == 0) own.sums[slot] = sum, own.ties[slot] = ties;
    ClusterSync();

    // Lane l looks at the runs of warps 4 l to 4 l + 3: their ties first, then what is kept of each.
    constexpr int kEach = kMostBlocks * TokenRow::kWarps / 32;
    uint32_t run_ties[kEach], all_ties = 0;
    Sum run_sums[kEach], all = 0;
    for (int j = 0; j < kEach; ++j) {
      const int w = row_.lane() * kEach + j;
      const bool exists = w < row_.warps();
      const TokenRow::Exchange& other = row_.OfWarp(own, exists ? w : 0);
      run_sums[j] = exists ? other.sums[w % TokenRow::kWarps] : 0;
      run_ties[j] = exists ? other.ties[w % TokenRow::kWarps] : 0;
      all_ties += run_ties[j];
    }
    uint32_t ties_before = ScanOverWarp(all_ties) - all_ties;
    const Sum each = KeptWeight(kept, kept.last, 0);
    for (int j = 0; j < kEach; ++j) {
      const uint32_t left = kept.tied > ties_before ? kept.tied - ties_before : 0, in_run = run_ties[j];
      run_sums[j] += each * min(left, in_run);
      all += run_sums[j];
      run_ties[j] = ties_before;  // before the run, from here on
      ties_before += in_run;
    }
    Sum before = ScanOverWarp(all);
    const Sum whole = __shfl_sync(kAll, before, 31);
    before -= all;
    const Sum target = min(whole - 1, static_cast<Sum>(choice_.uniform * static_cast<double>(whole)));
    for (int j = 0; j < kEach; ++j) {
      const unsigned lanes = __ballot_sync(kAll, before <= target && target < before + run_sums[j]);
      const int lane = __ffs(static_cast<int>(lanes)) - 1;
      if (lanes != 0 && lane * kEach + j == row_.warp()) {
        Walk(kept, target - __shfl_sync(kAll, before, lane), __shfl_sync(kAll, run_ties[j], lane));
      }
      before += run_sums[j];
    }
  }

  /// The warp in whose run the draw lies finds the token at which the running sum first exceeds `target`.
  __device__ void Walk(const KeptTokens& kept, Sum target, uint32_t ties) const {
    const unsigned lanes_before = (1u << row_.lane()) - 1;
    Sum before = 0;
    for (int first = row_.begin(); first < row_.end(); first += 32) {
      const int id = first + row_.lane();
      const bool exists = id < row_.end();
      const float logit = exists ? row_.logit(id) : -kInfinity;
      const unsigned equal = __ballot_sync(kAll, exists && logit == kept.last);
      const Sum weight = exists ? KeptWeight(kept, logit, ties + __popc(equal & lanes_before)) : 0;
      const Sum sum = before + ScanOverWarp(weight);
      const unsigned beyond = __ballot_sync(kAll, sum > target);
      if (beyond != 0) {
        if (row_.lane() == __ffs(static_cast<int>(beyond)) - 1) Write({logit, id});
        return;
      }
      before = __shfl_sync(kAll, sum, 31);
      ties += __popc(equal);
    }
  }

  const ChoiceRow& choice_;
  TokenRow row_;
  Shared& shared_;
  ChosenToken* const out_;
  double log_sum_ = 0;
  int32_t tops_ = 0;
};

__global__ void __launch_bounds__(TokenRow::kThreads, 2)
    ChooseKernel(Tensor logits, const ChoiceRow* choices, ChosenToken* chosen) {
  __shared__ Chooser::Shared shared;
  __shared__ ChoiceRow choice;
  StartStep();
  const int row = static_cast<int>(blockIdx.y);
  if (threadIdx.x == 0) choice = choices[row];
  __syncthreads();
  Chooser(choice, static_cast<float*>(logits.data) + row * logits.stride, static_cast<int>(logits.cols), shared,
          &chosen[row])
      .Choose();
  ClusterSync();  // others may still read what this block has told them
}

}  // namespace

void LaunchChooseTokens(const Launcher& on, Tensor logits, const ChoiceRow* choices, ChosenToken* chosen) {
  Launcher clustered = on;
  clustered.cluster = std::min(on.largest_cluster, kMostBlocks);
  Launch(clustered, ChooseKernel, Grid(clustered.cluster, logits.rows), TokenRow::kThreads, 0, logits, choices, chosen);
}

}  // namespace ringside::cuda
