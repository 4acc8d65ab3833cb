// The supported model families: how their files spell hyper-parameters and tensors. A plan is made once at load from a
// file's metadata: the spec, and every required tensor with its exact shape. Plain data. THREAD: any.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/families/model_spec.h"
#include "engine/families/tensor_roles.h"
#include "engine/files/flat_json.h"
#include "engine/files/gguf_reader.h"

namespace ringside {

/// Order of a tensor's outputs in a file.
enum class RowOrder {
  kPlain,          // network order
  kByGroup,        // kQkv: the queries of one key/value head, its key, its value; then the next head (GPT-NeoX)
  kAlternating,    // kExpertGateUp: gate, up, gate, up (gpt-oss)
  kQueryThenGate,  // kQuery: a head's query, its gate; then the next head (Qwen3-Next)
  kByKeyHead,      // kRecurrentQkvGate, kRecurrentBetaRates: the rows of one key head; then the next head (Qwen3-Next)
};

struct PlannedTensor {
  TensorRole role;
  bool encoder = false;        // belongs to the encoder
  int64_t layer = -1;          // -1: no layer
  int64_t expert = -1;         // or stream, counted without the first; -1: none, or all
  std::string name;            // in the file
  std::vector<int64_t> shape;  // in the file
  bool transposed = false;     // the file has [in, out]
  RowOrder order = RowOrder::kPlain;
};

struct NetworkPlan {
  ModelSpec spec;
  std::vector<PlannedTensor> tensors;
  std::vector<std::string> ignored;  // tensors that the file may have and that are not used
  std::vector<std::string> skipped;  // name prefixes of parts that are not computed: other inputs, draft layers
  DType dummy_type = DType::kF32;    // kScaledE4M3: matrices of dummy weights have a scale per block, as in the file
};

/// Whether a network's draft layer (ModelSpec::draft_layers) is planned, if the file has one.
enum class DraftLayer { kSkip, kPlan };

/// The plan of a GGUF file. ERRORS: kInvalidArgument, with the name, for an unknown architecture or rope scaling, an
/// unsupported feature, and missing or inconsistent metadata.
Result<NetworkPlan> PlanGguf(const GgufFile& file, const std::string& path, DraftLayer draft = DraftLayer::kSkip);

/// "architecture 'x' is not supported", with the trait that is missing, or the list of supported ones if it is unknown.
Status UnsupportedArchitecture(std::string_view architecture, std::span<const std::string_view> supported);

/// ERRORS: kInvalidArgument if a config.json has an unknown architecture; checked before the weights are looked for.
Status CheckArchitecture(const FlatJson& config);

/// The plan of a Hugging Face folder from its config.json and the names of its tensors (which determine the prefix of
/// GPT-2's); without names, the plan of dummy weights. ERRORS: as PlanGguf.
Result<NetworkPlan> PlanHuggingFace(const FlatJson& config, std::span<const std::string_view> tensor_names,
                                    const std::string& folder, DraftLayer draft = DraftLayer::kSkip);

/// Tensor name in one kind of file for one kind of network. "{}" is replaced by the layer's number, "{e}" by the
/// expert's or stream's; expert tensors without "{e}" contain all experts.
struct TensorRule {
  TensorRole role;
  std::string_view name;
  bool transposed = false;
  RowOrder order = RowOrder::kPlain;
  bool encoder = false;
  bool one_row = false;  // the file's vector has shape [1, n]
};

/// The tensors of a draft layer, in addition to those of any layer.
struct DraftRules {
  std::string_view prefix;            // in place of the network's, if not empty; then the layer's number is 0
  std::span<const TensorRule> rules;  // empty: the family has none
  std::span<const std::string_view> copies = {};  // further tensors, equal to the network's own
};

constexpr TensorRule OfEncoder(TensorRole role, std::string_view name) {
  return {role, name, false, RowOrder::kPlain, true};
}

/// All rules; a later rule of a role replaces the earlier one.
std::vector<TensorRule> JoinRules(std::span<const std::span<const TensorRule>> parts);

/// Adds the tensors of plan->spec, by the rules that apply to it: first global ones, then layer by layer in the order
/// of the rules, in which they are loaded (and placed on a device); then an encoder's. `head`: the head's prefix.
void PlanTensors(std::span<const TensorRule> rules, std::string_view prefix, NetworkPlan* plan,
                 std::string_view head = "");
/// Adds the tensors of the draft layer of plan->spec. `rules`: the network's.
void PlanDraftTensors(std::span<const TensorRule> rules, std::string_view prefix, const DraftRules& draft,
                      NetworkPlan* plan);
/// `name` with this number in place of "{}".
std::string WithLayer(std::string_view name, int64_t layer);
/// The name of a tensor of the draft layer. `prefix`: the network's; `layer`: its number there.
std::string DraftName(std::string_view name, std::string_view prefix, const DraftRules& draft, int64_t layer);

}  // namespace ringside
