// What a network asks of its device, and of ranks that share it, that not all of them have.
#pragma once

#include "base/status.h"
#include "engine/families/model_spec.h"

namespace ringside {

class Backend;

/// kInvalidArgument, naming what the network has, if the backend does not compute it.
Status CheckNeeds(const ModelSpec& spec, const Backend& backend);
/// kInvalidArgument, naming what the network has, if it cannot be shared by ranks that have some heads each.
Status CheckShares(const ModelSpec& spec);

}  // namespace ringside
