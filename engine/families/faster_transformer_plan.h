// The networks that FasterTransformer's converters wrote: GPT (Megatron's, GPT-2, OPT, BLOOM), GPT-J, GPT-NeoX and T5.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/families/network_plan.h"
#include "engine/files/faster_transformer_reader.h"

namespace ringside {

struct FasterTransformerPlan {
  NetworkPlan network;
  std::vector<FileTensor> tensors;  // of the folder, with the shapes that the network gives them; borrowed from it
  std::optional<int64_t> start_id, end_id;  // tokens that begin and end a text; in no range
};

/// The plan of a folder, and its tensors by that plan. kInvalidArgument, naming it, for what config.ini asks for and we
/// lack, and for what does not fit; kCorruption, naming the file, for one that is missing or has not as many bytes as
/// its shape.
Result<FasterTransformerPlan> PlanFasterTransformer(const FasterTransformerFolder& folder);

/// How the tensors of all but T5 are called; "model." stands in front of those that are no head.
std::span<const TensorRule> FasterTransformerRules();
/// The tensor that is the sum of a layer's two biases onto the stream, where attention and MLP have the same input
/// (GPT-NeoX): FasterTransformer reads it in their place.
std::string BiasSum(int64_t layer);

/// How a tensor of that role is cut for several GPUs.
struct PieceCut {
  bool numbered = false;  // it is cut, and its files have numbers
  int64_t stretches = 1;  // as in FileTensor
  bool divided = false;   // not cut, but divided by the number of GPUs, each of which adds it (GPT-NeoX)
};
PieceCut CutOf(const PlannedTensor& planned, const ModelSpec& spec);

}  // namespace ringside
