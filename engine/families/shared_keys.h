// Layers that read the keys and values of an earlier layer instead of their own.
#pragma once

#include <string>

#include "base/status.h"
#include "engine/families/model_spec.h"

namespace ringside {

/// Lets the last `shared` layers read the keys and values of the last layer of their kind, with a window or without,
/// that has its own (Gemma 3n). ERRORS: kInvalidArgument, with `key`, if there is none.
Status ShareKeys(const std::string& key, int64_t shared, ModelSpec* spec);

}  // namespace ringside
