// The plan of a transformers library folder.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "engine/families/huggingface/huggingface_families.h"
#include "engine/families/huggingface/huggingface_wrappers.h"
#include "engine/families/huggingface/llama_names.h"
#include "engine/families/huggingface/quantization_config.h"

namespace ringside {
namespace {

std::array<std::span<const HuggingFaceFamily>, 9> AllFamilies() {
  return {LlamaLikeFamilies(), RecentFamilies(),      HybridFamilies(), MambaFamilies(),         LatentFamilies(),
          GemmaFamilies(),     AlternatingFamilies(), OlderFamilies(),  EncoderDecoderFamilies()};
}

std::vector<std::string_view> SupportedTypes() {
  std::vector<std::string_view> types(WrapperTypes().begin(), WrapperTypes().end());
  for (const auto& families : AllFamilies()) {
    for (const HuggingFaceFamily& family : families) types.push_back(family.type);
  }
  std::ranges::sort(types);
  types.erase(std::unique(types.begin(), types.end()), types.end());
  return types;
}

constexpr int64_t kMaxDummyExperts = 65536;

/// The prefix of this rule's tensor in the file: the family's whole prefix, or its last parts.
std::optional<std::string_view> PrefixOf(std::string_view tensor, std::string_view prefix,
                                         std::span<const std::string_view> names) {
  for (;; prefix.remove_prefix(prefix.find('.') + 1)) {
    const std::string name = std::string(prefix) + std::string(tensor);
    if (std::find(names.begin(), names.end(), name) != names.end()) return prefix;
    if (prefix.empty()) return std::nullopt;
  }
}

// Old files contain computed buffers, and a copy of a tied head. Layers that share keys and values may have matrices
// for them.
void Ignore(std::string_view prefix, std::string_view head, NetworkPlan* plan) {
  if (plan->spec.tied_head) {
    for (const char* name : {"lm_head.weight", "embed_out.weight"}) plan->ignored.push_back(std::string(head) + name);
  }
  plan->ignored.push_back(fmt::format("{}rotary_emb.inv_freq", prefix));
  if (plan->spec.encoder_layers > 0) {
    plan->ignored.insert(plan->ignored.end(),
                         {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight",
                          "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"});
  }
  for (int64_t layer = 0; layer < plan->spec.layers; ++layer) {
    if (plan->spec.OwnsKeys(layer)) continue;
    for (const std::string_view name : {"layers.{}.self_attn.k_proj.weight", "layers.{}.self_attn.v_proj.weight",
                                        "layers.{}.self_attn.k_norm.weight"}) {
      plan->ignored.push_back(std::string(prefix) + WithLayer(name, layer));
    }
  }
  for (int64_t layer = 0; layer < plan->spec.layers; ++layer) {
    for (const std::string_view name :
         {"h.{}.attn.bias", "h.{}.attn.masked_bias", "layers.{}.self_attn.rotary_emb.inv_freq",
          "layers.{}.mlp.act_fn.beta", "layers.{}.mlp.act_fn.eps", "layers.{}.attention.bias",
          "layers.{}.attention.masked_bias", "layers.{}.attention.rotary_emb.inv_freq"}) {
      plan->ignored.push_back(std::string(prefix) + WithLayer(name, layer));
    }
  }
}

constexpr int64_t kMaxDraftLayers = 16;

/// Plans the draft layer, if the file has one; of several the first. Its experts may have a tensor each although those
/// of the network's layers are joined.
Status PlanDraftLayer(const ConfigJson& config, const HuggingFaceFamily& family, std::string_view prefix,
                      std::span<const std::string_view> names, NetworkPlan* plan) {
  const DraftRules& draft = family.draft;
  int64_t layers = 0;
  for (const char* key : {"num_nextn_predict_layers", "mtp_num_hidden_layers"}) {
    RETURN_IF_ERROR(config.Optional(key, &layers));
  }
  ModelSpec& spec = plan->spec;
  const auto has = [&](std::string_view name) {
    return std::ranges::find(names, DraftName(name, prefix, draft, spec.layers)) != names.end();
  };
  if (draft.rules.empty() || (names.empty() ? layers < 1 : !has(draft.rules.front().name))) return Status::Ok();
  std::vector<TensorRule> rules = RulesOf(family);
  if (has("layers.{}.mlp.experts.0.down_proj.weight")) {
    const std::span<const TensorRule> parts[] = {rules, kQwenExperts};
    rules = JoinRules(parts);
    spec.draft_experts_apart = true;
  }
  AddDraftLayer(&spec);
  PlanDraftTensors(rules, prefix, draft, plan);
  return Status::Ok();
}

// Draft layers (multi-token prediction) follow the network's layers, or have distinct names.
Status SkipDraftLayers(const ConfigJson& config, std::string_view prefix, NetworkPlan* plan) {
  int64_t layers = 0;
  RETURN_IF_ERROR(config.Optional("num_nextn_predict_layers", &layers));
  for (int64_t layer = plan->spec.draft_layers; layer < std::min(layers, kMaxDraftLayers); ++layer) {
    plan->skipped.push_back(fmt::format("{}layers.{}.", prefix, plan->spec.layers + layer));
  }
  plan->skipped.push_back(fmt::format("{}mtp_", prefix));
  for (int64_t layer = 1; plan->spec.draft_layers > 0 && layer < kMaxDraftLayers; ++layer) {
    plan->skipped.push_back(fmt::format("mtp.layers.{}.", layer));
  }
  if (plan->spec.draft_layers == 0) plan->skipped.emplace_back("mtp.");
  return Status::Ok();
}

// Packed experts are outputs by inputs.
void TransposeExpertShapes(NetworkPlan* plan) {
  for (PlannedTensor& planned : plan->tensors) {
    if (!planned.transposed || planned.shape.size() != 3) continue;
    std::swap(planned.shape[1], planned.shape[2]);
    planned.transposed = false;
  }
}

}  // namespace

const HuggingFaceFamily* FindHuggingFaceFamily(std::string_view type, std::span<const std::string_view> names) {
  const HuggingFaceFamily* found = nullptr;
  for (const auto& families : AllFamilies()) {
    for (const HuggingFaceFamily& family : families) {
      if (family.type != type) continue;
      const std::string tensor = WithLayer(family.rules.back().front().name, 0), wrapped = "model." + tensor;
      const bool has = PrefixOf(tensor, family.prefix, names) || std::ranges::any_of(names, [&](std::string_view name) {
                         return name.ends_with("language_" + wrapped) || name.ends_with("language_model." + tensor);
                       });
      if (found == nullptr || has) found = &family;
    }
  }
  return found;
}

std::vector<TensorRule> RulesOf(const HuggingFaceFamily& family) { return JoinRules(family.rules); }

Status CheckArchitecture(const FlatJson& config) {
  ASSIGN_OR_RETURN(const TextConfig text, FindTextConfig(config));
  const bool known = FindHuggingFaceFamily(text.type, {}) != nullptr;
  return known ? Status::Ok() : UnsupportedArchitecture(text.type, SupportedTypes());
}

Result<NetworkPlan> PlanHuggingFace(const FlatJson& json, std::span<const std::string_view> tensor_names,
                                    const std::string& folder, DraftLayer draft) {
  RETURN_IF_ERROR(CheckArchitecture(json));
  ASSIGN_OR_RETURN(const TextConfig text, FindTextConfig(json));
  const ConfigJson config(json, text.prefix);
  NetworkPlan plan;
  ModelSpec& spec = plan.spec;
  std::filesystem::path path = std::filesystem::path(folder).lexically_normal();
  spec.name = (path.has_filename() ? path : path.parent_path()).filename().string();
  spec.architecture = text.type;
  ASSIGN_OR_RETURN(const auto packed, ReadQuantizationConfig(json));
  const HuggingFaceFamily& family = *FindHuggingFaceFamily(spec.architecture, tensor_names);
  SetOmittedSizes(json, text, &spec);
  RETURN_IF_ERROR(family.read(config, &spec));
  bool tied = spec.tied_head;  // by the wrapper
  if (text.wrapped) RETURN_IF_ERROR(ConfigJson(json).Optional("tie_word_embeddings", &tied));
  RETURN_IF_ERROR(ValidateSpec(spec));
  const std::string_view embedding = family.rules.front().front().name;
  const auto [prefix, head] =
      text.wrapped ? FindTextTensors(embedding, tensor_names)
                   : TextTensors{PrefixOf(embedding, family.prefix, tensor_names).value_or(family.prefix), ""};
  const std::vector<TensorRule> rules = RulesOf(family);
  const bool apart = std::ranges::any_of(
      rules, [](const TensorRule& rule) { return rule.name.find("{e}") != std::string_view::npos; });
  // Bounds the number of names before they are made. Without any tensors, the weights are to be dummy ones.
  const int64_t most = tensor_names.empty() ? kMaxDummyExperts : std::ssize(tensor_names);
  if (apart && spec.layers * spec.experts > most) {
    return Corruption(fmt::format("the model has {} tensors, too few for {} experts in each of {} layers",
                                  tensor_names.size(), spec.experts, spec.layers));
  }
  // Some T5 files have an untied head although their config declares a tied one; a wrapper and its text network may
  // contradict each other.
  const bool has_head = std::ranges::find(tensor_names, std::string(head) + "lm_head.weight") != tensor_names.end();
  if ((spec.encoder_layers > 0 || tied != spec.tied_head) && !tensor_names.empty()) spec.tied_head = !has_head;
  PlanTensors(rules, prefix, &plan, head);
  if (draft == DraftLayer::kPlan) RETURN_IF_ERROR(PlanDraftLayer(config, family, prefix, tensor_names, &plan));
  if (packed && packed->kind == PackedFormat::Kind::kMxfp4) TransposeExpertShapes(&plan);
  if (packed && packed->kind == PackedFormat::Kind::kE4M3 && packed->block) plan.dummy_type = DType::kScaledE4M3;
  Ignore(prefix, head, &plan);
  RETURN_IF_ERROR(SkipDraftLayers(config, prefix, &plan));
  if (text.wrapped) plan.skipped.insert(plan.skipped.end(), OtherInputs().begin(), OtherInputs().end());
  return plan;
}

}  // namespace ringside
