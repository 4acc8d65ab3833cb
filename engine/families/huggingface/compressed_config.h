// Reads the quantization_config of compressed-tensors.
#pragma once

#include "base/status.h"
#include "engine/families/huggingface/config_json.h"
#include "engine/files/flat_json.h"
#include "engine/files/packed_tensors.h"

namespace ringside {

/// "quantization_config.key"
std::string QuantizationKey(std::string_view key);
/// ERRORS: kInvalidArgument: `key` has a value that is not supported.
Status UnsupportedQuantization(std::string_view key, std::string_view value, std::string_view supported);
/// A number of inputs per scale, a multiple of 32; -1 becomes 0, all. ERRORS: kInvalidArgument for another number.
Status ReadGroupSize(const ConfigJson& config, std::string_view key, int64_t* group);

/// [outputs, inputs] per scale, the second a multiple of 32. ERRORS: kInvalidArgument for anything else.
Status ReadScaleBlock(const FlatJson& json, std::string_view key, ScaleBlock* block);

/// Sets the format's groups and ignored modules. ERRORS: kInvalidArgument, with the key, for an unsupported or
/// malformed value.
Status ReadCompressed(const FlatJson& json, PackedFormat* format);

}  // namespace ringside
