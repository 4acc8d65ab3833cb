// GPT as Megatron-LM and NeMo save it.
#pragma once

#include <vector>

#include "base/status.h"
#include "engine/families/network_plan.h"
#include "engine/files/megatron_reader.h"

namespace ringside {

struct MegatronPlan {
  NetworkPlan network;
  std::vector<FileTensor> tensors;  // joined from what each GPU had; borrowed from the checkpoint
};

/// The plan of a checkpoint, and its tensors by that plan. kInvalidArgument, naming it, for a setting that we lack or
/// that does not fit; kCorruption, naming it, for a tensor that is missing or misshapen.
Result<MegatronPlan> PlanMegatron(const MegatronCheckpoint& checkpoint);

}  // namespace ringside
