// What a path says of a network, whatever the format: its plan, its tensors where they lie, its tokenizer and its chat
// template. Weights are mapped, none is read. Plain data; any thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/families/network_plan.h"
#include "engine/files/flat_json.h"
#include "engine/text/tokenizer.h"

namespace ringside {

struct ModelFiles {
  enum class Format { kGguf, kSafetensors, kFasterTransformer, kMegatron };

  Format format = Format::kGguf;
  NetworkPlan plan;
  std::vector<FileTensor> tensors;                               // borrowed from `reader`
  std::vector<std::pair<std::string, std::string>> unsupported;  // tensors of types that we do not compute with
  TokenizerData tokenizer;                                       // no tokens if there is none
  std::string chat_template;                                     // Jinja source; "" if there is none
  std::string texts;  // the folder of the tokenizer's files; "" where it is in no files of its own
  std::shared_ptr<const void> reader;
};

/// Opens a GGUF file, a folder of Hugging Face or FasterTransformer, or a checkpoint of Megatron-LM or NeMo. Errors as
/// Model::Load, naming the path; whether the tensors are those of the plan is not looked at (CheckTensors, weights.h).
Result<ModelFiles> OpenModelFiles(const std::string& path);

/// The names of what may lie beside weights: tokenizers, chat template, recommended sampling.
std::span<const std::string_view> TextFiles();

/// The chat template and the tokenizer of a folder, where it has them.
Status ReadTexts(const std::string& folder, std::string* chat_template, TokenizerData* tokenizer);

/// `status` with the path in front of its message, unless it is there.
Status WithPath(const std::string& path, const Status& status);

}  // namespace ringside
