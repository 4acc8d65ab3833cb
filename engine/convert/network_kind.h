// The kinds of networks that can be converted: what each format calls them, and how it tells their sizes. Plain data
// and pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/status.h"
#include "engine/model/weights/model_files.h"

namespace ringside {

enum class NetworkKind { kGpt2, kOpt, kBloom, kGptJ, kGptNeoX, kLlama, kQwen2, kQwen3, kT5 };

/// kInvalidArgument, naming the architecture, for one that is none of them.
Result<NetworkKind> KindOf(const ModelFiles& files);

/// The same network as `format` has it: which tensors are fused, and how its rows and pairs lie. kInvalidArgument where
/// the format does not know the kind.
Result<NetworkPlan> PlanTarget(NetworkKind kind, ModelFiles::Format format, const ModelSpec& spec);

/// A key of a GGUF file; numbers are written as uint32, float32 or lists of int32 or bytes.
struct GgufEntry {
  std::string key;
  std::variant<bool, int64_t, double, std::string, std::vector<std::string>, std::vector<int64_t>, std::vector<double>,
               std::vector<uint8_t>>
      value;
};

/// The texts that tell of the network; `tokenizer` for the tokens that begin and end a text. kInvalidArgument for a
/// rotation that is stretched.
Result<std::string> HuggingFaceConfig(NetworkKind kind, const ModelSpec& spec, const TokenizerData& tokenizer,
                                      DType dtype);
Result<std::vector<GgufEntry>> GgufMetadata(NetworkKind kind, const ModelSpec& spec);
std::string FasterTransformerConfig(NetworkKind kind, const ModelSpec& spec, const TokenizerData& tokenizer,
                                    DType dtype, int64_t gpus);

/// The name of the first trait in which two networks differ, whatever their formats; "" if they are the same.
std::string DifferentTrait(const ModelSpec& a, const ModelSpec& b);

}  // namespace ringside
