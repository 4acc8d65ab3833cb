// Checks for features that not every device setting, or not every sharding, supports.
#pragma once

#include "base/status.h"
#include "engine/families/model_spec.h"

namespace ringside {

class Backend;

/// ERRORS: kInvalidArgument, with the feature, if it is not computed with the backend's weights.
Status CheckNeeds(const ModelSpec& spec, const Backend& backend);
/// ERRORS: kInvalidArgument, with the feature, if it rules out tensor parallelism.
Status CheckShares(const ModelSpec& spec);
/// ERRORS: kInvalidArgument, with the feature, if it rules out pipeline parallelism.
Status CheckStages(const ModelSpec& spec);

}  // namespace ringside
