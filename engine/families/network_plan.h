// The model families we know: how their files spell hyper-parameters and tensors. A plan is made once at load from a
// file's metadata: the spec, and every tensor that must be there with its exact shape. Plain data; any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/families/model_spec.h"
#include "engine/files/flat_json.h"
#include "engine/files/gguf_reader.h"

namespace ringside {

/// What a tensor is in the network. F is the width of one expert where there are some.
enum class TensorRole {
  kEmbedding,          // [V, D], or [V, E] of one that is projected
  kEmbeddingNorm,      // [D]
  kEmbeddingNormBias,  // [D]
  kPositions,          // [position offset + trained context, D]
  kHead,               // as the embedding
  kHeadBias,           // [V]
  kFinalNorm,          // [D]
  kFinalNormBias,      // [D]
  kDistanceBiases,     // [buckets, H]
  kProjectIn,          // [D, E], of embeddings of E columns
  kProjectOut,         // [E, D]
  // From here on each layer has its own.
  kAttentionNorm,      // [D]
  kAttentionNormBias,  // [D]
  kQuery,              // [H d, D]
  kKey,                // [G d, D]
  kValue,              // [G d, D]
  kQkv,                // [(H + 2G) d, D]
  kQueryBias,          // [H d]
  kKeyBias,            // [G d]
  kValueBias,          // [G d]
  kQkvBias,            // [(H + 2G) d]
  kQueryNorm,          // [d], or [H d] of a whole row
  kKeyNorm,            // [d], or [G d]
  kSinks,              // [H]
  kAttentionOut,       // [D, H d]
  kAttentionOutBias,   // [D]
  kAttentionPostNorm,  // [D]
  kCrossNorm,          // [D], and of the attention to an encoder's rows:
  kCrossQuery,         // [H d, D]
  kCrossKey,           // [G d, D]
  kCrossValue,         // [G d, D]
  kCrossOut,           // [D, H d]
  kMlpNorm,            // [D]
  kMlpNormBias,        // [D]
  kGate,               // [F, D]
  kUp,                 // [F, D]
  kGateUp,             // [2F, D]
  kDown,               // [D, F]
  kGateBias,           // [F]
  kUpBias,             // [F]
  kDownBias,           // [D]
  kMlpPostNorm,        // [D]
  kRouter,             // [experts, D]
  kRouterBias,         // [experts]
  // Of each expert, or of all in one tensor with one more dimension in front.
  kExpertGate,        // [F, D]
  kExpertUp,          // [F, D]
  kExpertGateUp,      // [2F, D]
  kExpertDown,        // [D, F]
  kExpertGateBias,    // [F]
  kExpertUpBias,      // [F]
  kExpertGateUpBias,  // [2F]
  kExpertDownBias,    // [D]
  // Of the expert that all rows take.
  kSharedRouter,  // [1, D]
  kSharedGate,    // [shared F, D]
  kSharedUp,      // [shared F, D]
  kSharedDown,    // [D, shared F]
};

/// How the outputs of a tensor stand in a file.
enum class RowOrder {
  kPlain,        // as in the network
  kByGroup,      // of kQkv: the queries of one key/value head, its key, its value; then the next one's (GPT-NeoX)
  kAlternating,  // of kExpertGateUp: gate, up, gate, up (gpt-oss)
};

struct PlannedTensor {
  TensorRole role;
  bool encoder = false;        // whose it is, where there is one
  int64_t layer = -1;          // -1: not of a layer
  int64_t expert = -1;         // -1: of none, or of all
  std::string name;            // in the file
  std::vector<int64_t> shape;  // in the file
  bool transposed = false;     // the file has [in, out]
  RowOrder order = RowOrder::kPlain;
};

struct NetworkPlan {
  ModelSpec spec;
  std::vector<PlannedTensor> tensors;
  std::vector<std::string> ignored;  // names that may be in the file and mean nothing to us
};

/// The plan of a GGUF file. kInvalidArgument, naming it, for an unknown architecture, rope scaling or a feature that we
/// lack; for metadata that is missing or does not fit.
Result<NetworkPlan> PlanGguf(const GgufFile& file, const std::string& path);

/// "architecture 'x' is not supported", and which are.
Status UnsupportedArchitecture(std::string_view architecture, std::span<const std::string_view> supported);

/// kInvalidArgument where a config.json is not of an architecture that we know: told before its weights are looked for.
Status CheckArchitecture(const FlatJson& config);

/// The plan of a Hugging Face folder: its config.json and the names of its tensors (which tell how GPT-2's are
/// prefixed). Errors as PlanGguf.
Result<NetworkPlan> PlanHuggingFace(const FlatJson& config, std::span<const std::string_view> tensor_names,
                                    const std::string& folder);

/// How one kind of file spells the tensors of one kind of network. "{}" stands for the layer's number, "{e}" for the
/// expert's; experts' tensors without it have all experts.
struct TensorRule {
  TensorRole role;
  std::string_view name;
  bool transposed = false;
  RowOrder order = RowOrder::kPlain;
  bool encoder = false;
};

constexpr TensorRule OfEncoder(TensorRole role, std::string_view name) {
  return {role, name, false, RowOrder::kPlain, true};
}

/// The tensors that a network of plan->spec needs, by those rules that the spec calls for: first those of no layer,
/// then layer after layer in the order of the rules, in which they are loaded (and lie on a device); then an encoder's.
void PlanTensors(std::span<const TensorRule> rules, std::string_view prefix, NetworkPlan* plan);

}  // namespace ringside
