// GPT as saved by Megatron-LM and NeMo.
#pragma once

#include <vector>

#include "base/status.h"
#include "engine/families/network_plan.h"
#include "engine/import/megatron_reader.h"

namespace ringside {

struct MegatronPlan {
  NetworkPlan network;
  std::vector<FileTensor> tensors;  // joined from all GPUs' parts; borrowed from the checkpoint
};

/// The plan of a checkpoint, and its tensors in that plan. ERRORS: kInvalidArgument, with the setting, if one is not
/// supported or inconsistent; kCorruption, with the tensor, if one is missing or misshapen.
Result<MegatronPlan> PlanMegatron(const MegatronCheckpoint& checkpoint);

}  // namespace ringside
