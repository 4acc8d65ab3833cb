// Models with more inputs than text (`*ForConditionalGeneration`), read as their text networks: the place of the text
// network in config.json and among the tensors. Those of images and sound are skipped; engine/vision/ reads some.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engine/families/model_spec.h"
#include "engine/files/flat_json.h"

namespace ringside {

/// The text network of a config.json.
struct TextConfig {
  std::string type;      // model_type of its family
  std::string prefix;    // of its keys: "text_config.", or "" if they are at the top
  bool wrapped = false;  // whether a file's tensors have a wrapper's names
};

/// ERRORS: kInvalidArgument if there is no model_type. An unknown one is returned as it is.
Result<TextConfig> FindTextConfig(const FlatJson& config);

/// Sets the sizes that the wrapper's file may omit.
void SetOmittedSizes(const FlatJson& config, const TextConfig& text, ModelSpec* spec);

/// Where a wrapper's file keeps its text network.
struct TextTensors {
  std::string_view prefix;  // of all tensors except the head
  std::string_view head;    // prefix of the head
};
/// By the name of the embedding without its prefix, among a file's tensors; the newest layout if it is not there.
TextTensors FindTextTensors(std::string_view embedding, std::span<const std::string_view> names);

/// model_type of every wrapper.
std::span<const std::string_view> WrapperTypes();
/// Name prefixes of the parts that are not text.
std::span<const std::string_view> OtherInputs();

}  // namespace ringside
