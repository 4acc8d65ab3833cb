// T5, an encoder-decoder network, in the output formats: tensor names and settings. Pure functions. THREAD: any.
#pragma once

#include <string>

#include "engine/convert/network_kind.h"

namespace ringside {

/// Adds the tensors of plan->spec.
void PlanT5(ModelFiles::Format format, NetworkPlan* plan);

std::string T5FasterTransformerConfig(const ModelSpec& spec, const TokenizerData& tokenizer, DType dtype, int64_t gpus);

}  // namespace ringside
