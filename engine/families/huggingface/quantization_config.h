// Reads the quantization_config of a config.json: the quantization method of a model's weights.
#pragma once

#include <optional>

#include "base/status.h"
#include "engine/files/flat_json.h"
#include "engine/files/packed_tensors.h"

namespace ringside {

/// nullopt if the weights are not packed. ERRORS: kInvalidArgument, with the name, for an unsupported method or
/// variant.
Result<std::optional<PackedFormat>> ReadQuantizationConfig(const FlatJson& config);
/// Reads a hf_quant_config.json, which ModelOpt writes beside a config.json without quantization_config. ERRORS: as
/// above.
Result<PackedFormat> ReadModelOptConfig(const FlatJson& hf_quant_config);

}  // namespace ringside
