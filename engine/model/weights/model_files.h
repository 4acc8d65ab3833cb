// The model at a path, in any format: its plan, its tensors (memory-mapped, not read), its tokenizer and its chat
// template. Plain data. THREAD: any.
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
#include "engine/vision/image_format.h"
#include "engine/vision/vision_plan.h"

namespace ringside {

/// A vision tower of a model, and how its prompts contain images.
struct VisionFiles {
  VisionPlan plan;
  std::vector<FileTensor> tensors;  // of plan.tensors, in their order; borrowed from `reader`, or ModelFiles::reader
  ImageFormat format;
  std::shared_ptr<const void> reader = {};  // of the tower's file, if it is another
};

struct ModelFiles {
  enum class Format { kGguf, kSafetensors, kFasterTransformer, kMegatron };

  Format format = Format::kGguf;
  NetworkPlan plan;
  std::vector<FileTensor> tensors;                               // borrowed from `reader`
  std::vector<std::pair<std::string, std::string>> unsupported;  // tensors of unsupported types
  std::shared_ptr<const VisionFiles> vision;                     // null if images are not supported
  TokenizerData tokenizer;                                       // no tokens if there is none
  std::string chat_template;                                     // Jinja source; "" if there is none
  std::string texts;  // folder of the tokenizer's files; "" if they are embedded
  std::shared_ptr<const void> reader;
};

/// Opens a GGUF file, a Hugging Face or FasterTransformer folder, or a Megatron-LM or NeMo checkpoint. Does not compare
/// the tensors with the plan (CheckTensors, weights.h). ERRORS: as Model::Load, with the path.
Result<ModelFiles> OpenModelFiles(const std::string& path, DraftLayer draft = DraftLayer::kSkip);

/// Names of optional text files next to the weights: tokenizers, chat template, recommended sampling.
std::span<const std::string_view> TextFiles();

/// Reads the chat template and the tokenizer of a folder, if present.
Status ReadTexts(const std::string& folder, std::string* chat_template, TokenizerData* tokenizer);

}  // namespace ringside
