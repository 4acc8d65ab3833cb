// The supported vision towers: how their files spell hyper-parameters and tensors. A plan is made once at load from a
// folder's config.json; it has the spec and every tensor with its exact shape. Plain data. THREAD: any.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/files/flat_json.h"
#include "engine/files/gguf_reader.h"
#include "engine/vision/vision_spec.h"

namespace ringside {

enum class VisionRole {
  kPatchMore,  // [D, 3, patch, patch], of a second frame, if they are stored apart; before kPatch
  kPatch,      // [D, 3, patch, patch]; [D, 3, frames, patch, patch] with several frames
  kPatchBias,  // [D]
  kClass,      // [D]
  kPositions,  // [grid^2, D]; with a class token, its own before; [table_side^2, D]
  kInputNorm,  // [D], before the layers
  kInputNormBias,
  kNorm,  // [D], before attention
  kNormBias,
  kQuery,  // [H d, D]
  kKey,
  kValue,
  kOut,  // [D, H d]
  kQueryBias,
  kKeyBias,
  kValueBias,
  kQkv,  // [3 H d, D], the three in one
  kQkvBias,
  kOutBias,
  kMlpNorm,  // [D]
  kMlpNormBias,
  kGate,  // [F, D]
  kUp,
  kDown,  // [D, F]
  kGateBias,
  kUpBias,
  kDownBias,
  kOutputNorm,  // [D], after the layers
  kOutputNormBias,
  kProjectorNorm,  // [D]
  kProjectorNormBias,
  kMerger,      // [D, D merge^2]: column (channel, row, column)
  kFirst,       // [text hidden, D]; [D merge^2, D merge^2] of joined patches
  kProjection,  // [D, text hidden]: kFirst, transposed
  kFirstBias,
  kSecond,  // [text hidden, text hidden or D merge^2]
  kSecondBias,
  // One of each for a deep layer, the norm over joined patches.
  kDeepNorm,  // [D merge^2]
  kDeepNormBias,
  kDeepFirst,  // [D merge^2, D merge^2]
  kDeepFirstBias,
  kDeepSecond,  // [text hidden, D merge^2]
  kDeepSecondBias,
};

struct PlannedVisionTensor {
  VisionRole role;
  int64_t layer = -1;  // or index of the deep layer; -1: neither
  std::string name;    // in the file
  std::vector<int64_t> shape;
};

struct VisionPlan {
  VisionSpec spec;
  std::vector<PlannedVisionTensor> tensors;
};

/// The tower of a Hugging Face folder, for a text network of `text_hidden` columns; nullopt if config.json names no
/// supported one or the file lacks its tensors. `processors`: preprocessor_config.json and processor_config.json, as
/// far as they exist. ERRORS: kInvalidArgument, with the name, for an unsupported feature or inconsistent sizes.
Result<std::optional<VisionPlan>> PlanVision(const FlatJson& config, std::span<const FlatJson> processors,
                                             std::span<const std::string_view> tensor_names, int64_t text_hidden);

/// The tower of llama.cpp's GGUF file (mmproj) next to the file of the text network. ERRORS: as PlanVision.
Result<VisionPlan> PlanGgufVision(const GgufFile& file, const ModelSpec& text);

}  // namespace ringside
