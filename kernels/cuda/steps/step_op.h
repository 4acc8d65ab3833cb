// One recorded operation: its kind and every argument that determines which kernels run on which memory. Values that
// change between decode steps are reached through its pointers instead, so steps with equal operations share one graph.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/activation.h"
#include "kernels/cuda/attention/attention_plan.h"
#include "kernels/cuda/attention/prefix_plan.h"
#include "kernels/cuda/experts/experts_plan.h"
#include "kernels/cuda/linear/low_rank_plan.h"
#include "kernels/cuda/recurrence/recurrence_plan.h"
#include "kernels/cuda/rows/row_op.h"
#include "kernels/cuda/sampling/device_sampling_params.h"
#include "kernels/row_sampling_params.h"
#include "kernels/tensor.h"

namespace ringside::cuda {

enum class OpKind {
  kEmbed,
  kNorm,
  kNormHeads,
  kLinear,
  kLinearHeads,
  kLowRank,
  kAttention,
  kRecur,
  kMultiplyActivated,
  kActivate,
  kExperts,
  kRowOp,
  kAdd,
  kSoftCap,
  kGatherRows,
  kPermuteColumns,
  kSampleTokens,
  kAllReduce,
  kNormOfRanks,
  kAllGatherColumns,
  kSampleGreedy,
  kSend,
  kReceive
};

struct StepOp {
  static constexpr int kMaxWeights = 3;

  OpKind kind = OpKind::kEmbed;
  Tensor x, y;
  const void* weights[kMaxWeights] = {};  // kEmbed: the table; kLinear, kLinearHeads
  const float* scales[kMaxWeights] = {};  // of the weights, if quantized: row scales
  int64_t outputs[kMaxWeights] = {};
  DType weight_dtype = DType::kBF16;  // also kLowRank: type of its matrices
  const int32_t* indices = nullptr;   // kEmbed, kGatherRows: staged; kPermuteColumns: act-order permutation of a weight
  const float* norm_weight = nullptr;  // kNorm, kNormHeads, kNormOfRanks
  const float* bias = nullptr;         // of a linear layer, or of a LayerNorm
  const void* rounded_bias = nullptr;  // of a linear layer, in the type of x
  float eps = 0;
  int64_t heads = 0;                          // kNormHeads, kLinearHeads
  int64_t all_columns = 0;                    // kNormOfRanks: on all ranks
  bool counts = false;                        // kNormOfRanks: whether x contributes to the mean
  bool accumulate = false;                    // kEmbed, kLinear, kAllReduce: y += instead of y =
  bool layer_norm = false;                    // kNorm: LayerNorm instead of RMSNorm
  Activation activation = Activation::kSilu;  // kMultiplyActivated, kActivate, kExperts
  float scale = 1;                            // kEmbed; kSoftCap: the cap
  AttentionPlan attention;
  PrefixPlan prefixes;  // of the attention
  ExpertsPlan experts;
  LowRankPlan low_rank;
  RecurrencePlan recurrence;
  RowOp row_op;
  const DeviceSamplingParams* row_params = nullptr;  // kSampleTokens: staged
  SampledToken* sampled = nullptr;                   // pinned host memory
  int32_t* sampled_ids = nullptr;    // kSampleTokens, kSampleGreedy: written; kEmbed: read for awaited tokens
  const int64_t* borders = nullptr;  // kAllGatherColumns: owned by the backend
  int64_t first_token = 0;           // kSampleGreedy: token of the first column

  friend bool operator==(const StepOp&, const StepOp&) = default;
};

using StepOps = std::vector<StepOp>;

}  // namespace ringside::cuda
