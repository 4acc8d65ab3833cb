// The kinds of networks that can be converted: their names in each format, and how it spells their sizes. Plain data
// and pure functions. THREAD: any.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/status.h"
#include "engine/model/weights/model_files.h"

namespace ringside {

enum class NetworkKind { kGpt2, kOpt, kBloom, kGptJ, kGptNeoX, kLlama, kQwen2, kQwen3, kT5 };

/// ERRORS: kInvalidArgument, with the architecture, for any other one.
Result<NetworkKind> KindOf(const ModelFiles& files);

/// The plan of the same network in `format`: fused tensors, order of rows and rotary pairs. ERRORS: kInvalidArgument if
/// the format does not support the kind.
Result<NetworkPlan> PlanTarget(NetworkKind kind, ModelFiles::Format format, const ModelSpec& spec);

/// A key of a GGUF file; numbers are written as uint32, float32, or lists of int32 or bytes.
struct GgufEntry {
  std::string key;
  std::variant<bool, int64_t, double, std::string, std::vector<std::string>, std::vector<int64_t>, std::vector<double>,
               std::vector<uint8_t>>
      value;
};

/// The texts that describe the network; `tokenizer` gives BOS and EOS. ERRORS: kInvalidArgument for rope scaling.
Result<std::string> HuggingFaceConfig(NetworkKind kind, const ModelSpec& spec, const TokenizerData& tokenizer,
                                      DType dtype);
Result<std::vector<GgufEntry>> GgufMetadata(NetworkKind kind, const ModelSpec& spec);
std::string FasterTransformerConfig(NetworkKind kind, const ModelSpec& spec, const TokenizerData& tokenizer,
                                    DType dtype, int64_t gpus);

/// The name of the first trait in which two networks differ, in any format; "" if there is none.
std::string DifferentTrait(const ModelSpec& a, const ModelSpec& b);

}  // namespace ringside
