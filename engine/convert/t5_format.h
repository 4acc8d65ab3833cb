// T5, a network with an encoder, in the formats that we write: its tensors' names and what is told of it. Pure
// functions; any thread.
#pragma once

#include <string>

#include "engine/convert/network_kind.h"

namespace ringside {

/// Adds the tensors of plan->spec.
void PlanT5(ModelFiles::Format format, NetworkPlan* plan);

std::string T5FasterTransformerConfig(const ModelSpec& spec, const TokenizerData& tokenizer, DType dtype, int64_t gpus);

}  // namespace ringside
