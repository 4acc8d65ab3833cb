// The quantization_config of a config.json: by which method a model's weights were quantised.
#pragma once

#include <optional>

#include "base/status.h"
#include "engine/files/flat_json.h"
#include "engine/files/packed_tensors.h"

namespace ringside {

/// Nothing if weights are not packed. kInvalidArgument, naming it, for a method or a variant of one that we lack.
Result<std::optional<PackedFormat>> ReadQuantizationConfig(const FlatJson& config);

}  // namespace ringside
