// Selection of a row's experts and their weights by one warp (kernels/router_traits.h). Lane l holds every 32nd of up
// to 32 kOwn experts. Included by .cu files.
#pragma once

#include <climits>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/experts/experts_plan.h"

namespace ringside::cuda {

/// A NaN logit is never selected.
__device__ __forceinline__ float LogitAt(const float* logits, int i) {
  const float logit = logits[i];
  return isnan(logit) ? -INFINITY : logit;
}
__device__ __forceinline__ float SigmoidOf(float x) { return 1.0f / (1.0f + expf(-x)); }

/// The router's output for one row.
struct RowLogits {
  const float* logits;
  int routed;   // experts, without the shared one
  bool shared;  // the expert after them is used by all rows

  __device__ __forceinline__ RowLogits(const ExpertsPlan& plan, int row)
      : logits(static_cast<const float*>(plan.router.data) + row * plan.router.stride),
        routed(static_cast<int>(plan.router.cols) - (plan.experts_per_row > plan.top_k ? 1 : 0)),
        shared(plan.experts_per_row > plan.top_k) {}
};

/// The lane's keys of experts to select from; 0: none.
template <int kOwn>
struct LaneKeys {
  static_assert(kOwn <= 32);
  uint32_t keys[kOwn];
  uint32_t selected = 0;  // bit j: the lane's j-th expert is selected

  /// Selects the expert with the highest key of all lanes, ties to the lower index; returns its key.
  __device__ __forceinline__ uint32_t SelectHighest(int lane) {
    uint32_t own = 0;
    int at = 0;
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      if (keys[j] > own) own = keys[j], at = j;
    }
    const uint32_t best = __reduce_max_sync(0xffffffffu, own);
    const int first = __reduce_min_sync(0xffffffffu, own == best ? at * 32 + lane : INT_MAX);
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      if (j * 32 + lane == first) keys[j] = 0, selected |= 1u << j;
    }
    return best;
  }
};

/// Calls emit(i, expert, weight) for the selected experts in index order, and the shared one. weight(j, expert) returns
/// the weight of the lane's j-th expert; kUnroll: kOwn if that needs a constant j, else 1.
template <int kOwn, int kUnroll, class Weight, class Emit>
__device__ __forceinline__ void EmitSelected(const ExpertsPlan& plan, const RowLogits& row, uint32_t selected, int lane,
                                             const Weight& weight, const Emit& emit) {
  int count = 0;
#pragma unroll kUnroll
  for (int j = 0; j < kOwn; ++j) {
    if (j * 32 >= row.routed) break;
    const bool is_selected = (selected >> j & 1) != 0;
    const uint32_t all = __ballot_sync(0xffffffffu, is_selected);
    if (is_selected) {
      const int expert = j * 32 + lane;
      emit(count + __popc(all & ((1u << lane) - 1)), expert, weight(j, expert));
    }
    count += __popc(all);
  }
  if (row.shared && lane == 0) emit(plan.top_k, row.routed, SigmoidOf(row.logits[row.routed]));
}

/// Sum over the row of e^(logit - largest).
__device__ __forceinline__ float SumOfExponentials(const RowLogits& row, float largest, int lane) {
  float sum = 0;
#pragma unroll 1
  for (int i = lane; i < row.routed; i += 32) sum += expf(row.logits[i] - largest);
  return SumOverWarp(sum);
}

/// Router without traits: a softmax over all experts or over the selected ones.
template <int kOwn>
struct PlainRouter {
  template <class Emit>
  static __device__ __forceinline__ void Route(const ExpertsPlan& plan, int row_index, int lane, const Emit& emit) {
    const RowLogits row(plan, row_index);
    LaneKeys<kOwn> own;
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      const int i = j * 32 + lane;
      own.keys[j] = i < row.routed ? OrderedKey(LogitAt(row.logits, i)) : 0;
    }
    float largest = 0, sum = 0;
#pragma unroll 1
    for (int n = 0; n < plan.top_k; ++n) {
      const float logit = ValueOfKey(own.SelectHighest(lane));
      if (n == 0) largest = logit;
      sum += expf(logit - largest);
    }
    if (!plan.normalised) sum = SumOfExponentials(row, largest, lane);
    const auto weight = [&](int, int expert) { return expf(LogitAt(row.logits, expert) - largest) / sum; };
    EmitSelected<kOwn, 1>(plan, row, own.selected, lane, weight, emit);
  }
};

/// Scores and choices of RouterTraits for one row.
struct RowScores {
  const float* logits;
  const float* correction;
  bool sigmoid;
  float largest = 0, sum = 1;  // of the softmax

  __device__ __forceinline__ RowScores(const ExpertsPlan& plan, const RowLogits& row, int lane)
      : logits(row.logits), correction(plan.traits.correction), sigmoid(plan.traits.sigmoid) {
    if (sigmoid) return;
    uint32_t highest = 0;
#pragma unroll 1
    for (int i = lane; i < row.routed; i += 32) highest = max(highest, OrderedKey(LogitAt(logits, i)));
    largest = ValueOfKey(__reduce_max_sync(0xffffffffu, highest));
    sum = SumOfExponentials(row, largest, lane);
  }
  __device__ __forceinline__ float Score(int expert) const {
    const float logit = LogitAt(logits, expert);
    return sigmoid ? SigmoidOf(logit) : expf(logit - largest) / sum;
  }
  __device__ __forceinline__ float Choice(float score, int expert) const {
    return correction != nullptr ? score + correction[expert] : score;
  }
};

/// A bit mask of the groups that take part. A power of two of lanes shares each group.
__device__ __forceinline__ uint32_t SelectGroups(const RouterTraits& traits, const RowScores& scores, int size,
                                                 int lane) {
  const int groups = static_cast<int>(traits.groups), lanes = 1 << (31 - __clz(32 / groups)), group = lane / lanes;
  float first = -INFINITY, second = -INFINITY;  // the highest choices
#pragma unroll 4
  for (int i = lane % lanes; group < groups && i < size; i += lanes) {
    const int expert = group * size + i;
    const float choice = scores.Choice(scores.Score(expert), expert);
    second = fmaxf(second, fminf(first, choice)), first = fmaxf(first, choice);
  }
  for (int step = 1; step < lanes; step *= 2) {
    const float other_first = __shfl_xor_sync(0xffffffffu, first, step),
                other_second = __shfl_xor_sync(0xffffffffu, second, step);
    second = fmaxf(fminf(first, other_first), fmaxf(second, other_second)), first = fmaxf(first, other_first);
  }
  const float value = traits.group_highest || size == 1 ? first : first + second;
  uint32_t key = group < groups ? OrderedKey(value) : 0, mask = 0;
#pragma unroll 1
  for (int n = 0; n < traits.groups_used; ++n) {
    const uint32_t best = __reduce_max_sync(0xffffffffu, key);
    const int selected = __reduce_min_sync(0xffffffffu, key == best ? group : INT_MAX);
    if (group == selected) key = 0;
    mask |= 1u << selected;
  }
  return mask;
}

/// Router with traits.
template <int kOwn>
struct TraitsRouter {
  template <class Emit>
  static __device__ __forceinline__ void Route(const ExpertsPlan& plan, int row_index, int lane, const Emit& emit) {
    const RowLogits row(plan, row_index);
    if (plan.traits.margin > 0) return RouteByMargin(plan, row, lane, emit);
    const RouterTraits& traits = plan.traits;
    const RowScores scores(plan, row, lane);
    LaneKeys<kOwn> own;
    float score[kOwn];
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      const int expert = j * 32 + lane;
      score[j] = expert < row.routed ? scores.Score(expert) : 0;
      own.keys[j] = expert < row.routed ? OrderedKey(scores.Choice(score[j], expert)) : 0;
    }
    if (traits.groups_used < traits.groups) {
      const int size = row.routed / static_cast<int>(traits.groups);
      const uint32_t used = SelectGroups(traits, scores, size, lane);
#pragma unroll
      for (int j = 0; j < kOwn; ++j) {
        const int expert = j * 32 + lane;
        if (expert < row.routed && (used >> (expert / size) & 1) == 0) own.keys[j] = OrderedKey(-INFINITY);
      }
    }
#pragma unroll 1
    for (int n = 0; n < plan.top_k; ++n) own.SelectHighest(lane);
    float sum = 0;
#pragma unroll
    for (int j = 0; j < kOwn; ++j) sum += (own.selected >> j & 1) != 0 ? score[j] : 0.0f;
    sum = SumOverWarp(sum) + 1e-20f;  // all sigmoids can be zero
    const float factor = plan.normalised ? traits.scale / sum : traits.scale;
    const auto weight = [&](int j, int expert) {
      return score[j] * factor * (traits.scales != nullptr ? traits.scales[expert] : 1.0f);
    };
    EmitSelected<kOwn, kOwn>(plan, row, own.selected, lane, weight, emit);
  }

 private:
  template <class Emit>
  static __device__ __forceinline__ void RouteByMargin(const ExpertsPlan& plan, const RowLogits& row, int lane,
                                                       const Emit& emit) {
    LaneKeys<kOwn> own;
    float logit[kOwn], weights[kOwn] = {};
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      const int i = j * 32 + lane;
      logit[j] = i < row.routed ? LogitAt(row.logits, i) : -INFINITY;
      own.keys[j] = i < row.routed ? OrderedKey(logit[j]) : 0;
    }
#pragma unroll 1
    for (int n = 0; n < plan.top_k; ++n) {
      const uint32_t before = own.selected;
      const float largest = ValueOfKey(own.SelectHighest(lane));
      float sum = 0;
#pragma unroll
      for (int j = 0; j < kOwn; ++j) {
        const bool near = !((largest - logit[j]) / fmaxf(fabsf(logit[j]), largest) > plan.traits.margin);
        if (near && (before >> j & 1) == 0) sum += expf(logit[j] - largest);
      }
      sum = SumOverWarp(sum);
#pragma unroll
      for (int j = 0; j < kOwn; ++j) {
        if (((own.selected ^ before) >> j & 1) != 0) weights[j] = 1 / sum;
      }
    }
    EmitSelected<kOwn, kOwn>(
        plan, row, own.selected, lane, [&](int j, int) { return weights[j]; }, emit);
  }
};

}  // namespace ringside::cuda
