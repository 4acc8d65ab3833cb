// Networks written by FasterTransformer's converters: GPT (Megatron's, GPT-2, OPT, BLOOM), GPT-J, GPT-NeoX and T5.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/families/network_plan.h"
#include "engine/import/faster_transformer_reader.h"

namespace ringside {

struct FasterTransformerPlan {
  NetworkPlan network;
  std::vector<FileTensor> tensors;          // the folder's tensors, with the network's shapes; borrowed
  std::optional<int64_t> start_id, end_id;  // BOS and EOS ids; not range-checked
};

/// The plan of a folder, and its tensors in that plan. ERRORS: kInvalidArgument, with the key, for a setting in
/// config.ini that is not supported or inconsistent; kCorruption, with the file, if one is missing or does not have the
/// bytes of its shape.
Result<FasterTransformerPlan> PlanFasterTransformer(const FasterTransformerFolder& folder);

/// Tensor names of all networks except T5; names other than the head's have the prefix "model.".
std::span<const TensorRule> FasterTransformerRules();
/// The tensor with the sum of a layer's two residual biases, if attention and MLP have the same input (GPT-NeoX):
/// FasterTransformer reads it instead of the two.
std::string BiasSum(int64_t layer);

/// How a tensor of a given role is split over GPUs.
struct PieceCut {
  bool numbered = false;  // split; its files are numbered
  int64_t stretches = 1;  // as in FileTensor
  bool divided = false;   // not split, but divided by the number of GPUs, because every GPU adds it (GPT-NeoX)
};
PieceCut CutOf(const PlannedTensor& planned, const ModelSpec& spec);

}  // namespace ringside
