// The tokens of a row that top_k and top_p keep: a prefix of the order (logit descending, id ascending). Its end is
// found by iterative narrowing. A histogram over an interval of logits identifies the bin that contains the end; that
// bin's least and greatest logits are the next interval, until they are equal, usually after two or three rounds. Bins
// have equal width rather than being digits of the bit pattern, so that tokens spread over them and atomics rarely
// conflict. Included by .cu files only.
#pragma once

#include "kernels/cuda/sampling/token_row.cuh"

namespace ringside::cuda {

/// Tokens better than `last`, and the first `tied` of those equal to it.
struct KeptTokens {
  float last = -kInfinity;
  uint32_t tied = 0;
  Sum weight = 0;  // 0: unknown
};

class TokenCut {
 public:
  static constexpr int kBins = TokenRow::kThreads;

  struct Histogram {
    uint32_t weight_low[kBins], weight_high[kBins], count[kBins], least[kBins], greatest[kBins];
  };
  /// A bin and the totals of the bins before it.
  struct Bin {
    Sum above, weight;
    uint32_t count_above, count, least, greatest;
  };
  struct Shared {
    Histogram histograms[2];  // double-buffered, as TokenRow's exchanges
    Sum warp_weights[TokenRow::kWarps];
    uint32_t warp_counts[TokenRow::kWarps];
    Bin border;
  };

  __device__ TokenCut(const TokenRow& row, Shared& shared) : row_(row), shared_(shared) {}

  __device__ KeptTokens Cut() {
    KeptTokens kept;
    const DeviceSamplingParams& params = row_.params();
    if (params.top_k > 0 && params.top_k < row_.vocab()) kept = Narrow(kept, static_cast<uint32_t>(params.top_k), 0);
    if (params.top_p < 1) kept = Narrow(kept, 0, params.top_p);
    return kept;
  }

 private:
  // A 64-bit weight is added by two 32-bit atomics, which shared memory supports in hardware; the thread whose addition
  // overflows the low half adds the carry.
  __device__ static void Add(Histogram& to, int bin, const Bin& tokens) {
    const auto low = static_cast<uint32_t>(tokens.weight);
    const uint32_t before = atomicAdd(&to.weight_low[bin], low);
    const uint32_t high = static_cast<uint32_t>(tokens.weight >> 32) + (before + low < before ? 1 : 0);
    if (high != 0) atomicAdd(&to.weight_high[bin], high);
    atomicAdd(&to.count[bin], tokens.count);
    if (tokens.least < to.least[bin]) atomicMin(&to.least[bin], tokens.least);
    if (tokens.greatest > to.greatest[bin]) atomicMax(&to.greatest[bin], tokens.greatest);
  }

  /// Histogram of the tokens with keys in [least, greatest], better tokens in lower bins; thread t returns bin t of the
  /// row. Tokens of weight 0 are omitted: they can neither be drawn nor move the border.
  __device__ Bin CountBins(uint32_t least, uint32_t greatest, float width) {
    const int t = static_cast<int>(threadIdx.x);
    Histogram& own = shared_.histograms[round_++ % 2];
    own.weight_low[t] = own.weight_high[t] = own.count[t] = own.greatest[t] = 0;
    own.least[t] = kAll;
    __syncthreads();
    const float top = ValueOfKey(greatest), per_bin = kBins / width;
    Bin rest{0, 0, 0, 0, kAll, 0};  // this thread's share of the last bin, where most tokens fall
    row_.ForEach([&](int, float logit) {
      const uint32_t key = OrderedKey(logit);
      if (key < least || key > greatest) return;
      const Sum weight = row_.Fixed(row_.WeightAt(logit, row_.params().inverse_temperature));
      if (weight == 0) return;
      const int bin = min(kBins - 1, static_cast<int>((top - logit) * per_bin));
      if (bin == kBins - 1) {
        rest.weight += weight, ++rest.count;
        rest.least = min(rest.least, key), rest.greatest = max(rest.greatest, key);
      } else {
        Add(own, bin, {0, weight, 0, 1, key, key});
      }
    });
    rest.weight = SumOverWarp(rest.weight), rest.count = __reduce_add_sync(kAll, rest.count);
    rest.least = __reduce_min_sync(kAll, rest.least), rest.greatest = __reduce_max_sync(kAll, rest.greatest);
    if (t % 32 == 0 && rest.count > 0) Add(own, kBins - 1, rest);
    ClusterSync();
    Bin sum{0, 0, 0, 0, kAll, 0};
#pragma unroll
    for (int i = 0; i < TokenRow::kMaxRowBlocks; ++i) {
      const int block = min(i, row_.blocks() - 1);  // clamped, so that all loads are in flight together
      const Histogram& other = *MapToBlock(&own, block);
      const Sum weight = static_cast<Sum>(other.weight_high[t]) << 32 | other.weight_low[t];
      sum.weight += i == block ? weight : 0;
      sum.count += i == block ? other.count[t] : 0;
      sum.least = min(sum.least, other.least[t]);
      sum.greatest = max(sum.greatest, other.greatest[t]);
    }
    return sum;
  }

  /// Fills in the totals before a thread's bin; returns weight and number of all tokens.
  __device__ KeptTokens SumAbove(Bin* bin) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const Sum weight = ScanOverWarp(bin->weight);
    const uint32_t count = ScanOverWarp(bin->count);
    if (threadIdx.x % 32 == 31) shared_.warp_weights[warp] = weight, shared_.warp_counts[warp] = count;
    __syncthreads();
    KeptTokens all;
    bin->above = weight - bin->weight, bin->count_above = count - bin->count;
    for (int w = 0; w < TokenRow::kWarps; ++w) {
      if (w < warp) bin->above += shared_.warp_weights[w], bin->count_above += shared_.warp_counts[w];
      all.weight += shared_.warp_weights[w], all.tied += shared_.warp_counts[w];
    }
    return all;
  }

  /// The best `k` of the kept tokens, or (k = 0) the shortest prefix with `share` of their total weight.
  __device__ KeptTokens Narrow(const KeptTokens& kept, uint32_t k, double share) {
    uint32_t least = OrderedKey(kept.last), greatest = OrderedKey(row_.max());
    float width = 12.0f / row_.params().inverse_temperature;  // usually contains the end; the rest is one bin
    Sum goal = k;                                             // total at which the border's bin is reached
    Bin border{0, 0, 0, 0, 0, 0};
    for (bool first = true; first || least < greatest; first = false) {
      Bin bin = CountBins(least, greatest, width);
      const KeptTokens all = SumAbove(&bin);
      if (first && k > 0 && all.tied <= k) return {-kInfinity, 0, all.weight};
      if (first && k == 0) {
        const Sum whole = kept.weight > 0 ? kept.weight : all.weight;
        goal = min(whole, max(Sum{1}, static_cast<Sum>(ceil(share * static_cast<double>(whole)))));
      }
      bin.above += border.above, bin.count_above += border.count_above;
      const Sum above = k > 0 ? bin.count_above : bin.above, own = k > 0 ? bin.count : bin.weight;
      if (above < goal && goal <= above + own) shared_.border = bin;
      __syncthreads();
      border = shared_.border;
      least = border.least, greatest = border.greatest;
      width = ValueOfKey(greatest) - ValueOfKey(least);
    }
    const Sum each = border.weight / border.count;  // all tokens in the border's bin are equal
    const Sum tied = k > 0 ? k - border.count_above : (goal - border.above + each - 1) / each;
    return {ValueOfKey(least), static_cast<uint32_t>(tied), border.above + tied * each};
  }

  const TokenRow& row_;
  Shared& shared_;
  int round_ = 0;
};

}  // namespace ringside::cuda
