// Hyper-parameters and tensor names as written by llama.cpp's GGUF converters.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "engine/families/gguf_families.h"
#include "engine/families/network_plan.h"
#include "engine/families/rope_scaling.h"

namespace ringside {
namespace {

constexpr TensorRule kGgufRules[] = {
    {TensorRole::kEmbedding, "token_embd.weight"},
    {TensorRole::kEmbeddingNorm, "token_embd_norm.weight"},
    {TensorRole::kEmbeddingNormBias, "token_embd_norm.bias"},
    {TensorRole::kPositions, "position_embd.weight"},
    {TensorRole::kHead, "output.weight"},
    {TensorRole::kHeadBias, "output.bias"},
    {TensorRole::kFinalNorm, "output_norm.weight"},
    {TensorRole::kFinalNormBias, "output_norm.bias"},
    {TensorRole::kQuery, "blk.{}.attn_q.weight"},
    {TensorRole::kKey, "blk.{}.attn_k.weight"},
    {TensorRole::kValue, "blk.{}.attn_v.weight"},
    {TensorRole::kQkv, "blk.{}.attn_qkv.weight"},
    {TensorRole::kQueryBias, "blk.{}.attn_q.bias"},
    {TensorRole::kKeyBias, "blk.{}.attn_k.bias"},
    {TensorRole::kValueBias, "blk.{}.attn_v.bias"},
    {TensorRole::kQkvBias, "blk.{}.attn_qkv.bias"},
    {TensorRole::kQueryNorm, "blk.{}.attn_q_norm.weight"},
    {TensorRole::kKeyNorm, "blk.{}.attn_k_norm.weight"},
    {TensorRole::kLatentQuery, "blk.{}.attn_q.weight"},
    {TensorRole::kQueryDown, "blk.{}.attn_q_a.weight"},
    {TensorRole::kQueryDownNorm, "blk.{}.attn_q_a_norm.weight"},
    {TensorRole::kQueryUp, "blk.{}.attn_q_b.weight"},
    {TensorRole::kLatentDown, "blk.{}.attn_kv_a_mqa.weight"},
    {TensorRole::kLatentNorm, "blk.{}.attn_kv_a_norm.weight"},
    {TensorRole::kLatentUp, "blk.{}.attn_kv_b.weight"},
    {TensorRole::kLatentKeyUp, "blk.{}.attn_k_b.weight"},
    {TensorRole::kLatentValueUp, "blk.{}.attn_v_b.weight"},
    {TensorRole::kSinks, "blk.{}.attn_sinks.weight"},
    {TensorRole::kAttentionOut, "blk.{}.attn_output.weight"},
    {TensorRole::kAttentionOutBias, "blk.{}.attn_output.bias"},
    {TensorRole::kAttentionPostNorm, "blk.{}.post_attention_norm.weight"},
    {TensorRole::kGate, "blk.{}.ffn_gate.weight"},
    {TensorRole::kUp, "blk.{}.ffn_up.weight"},
    {TensorRole::kGateUp, "blk.{}.ffn_up.weight"},
    {TensorRole::kDown, "blk.{}.ffn_down.weight"},
    {TensorRole::kGateBias, "blk.{}.ffn_gate.bias"},
    {TensorRole::kUpBias, "blk.{}.ffn_up.bias"},
    {TensorRole::kDownBias, "blk.{}.ffn_down.bias"},
    {TensorRole::kMlpPostNorm, "blk.{}.post_ffw_norm.weight"},
    {TensorRole::kRouter, "blk.{}.ffn_gate_inp.weight"},
    {TensorRole::kRouterBias, "blk.{}.ffn_gate_inp.bias"},
    {TensorRole::kRouterCorrection, "blk.{}.exp_probs_b.bias"},
    {TensorRole::kExpertGate, "blk.{}.ffn_gate_exps.weight"},
    {TensorRole::kExpertUp, "blk.{}.ffn_up_exps.weight"},
    {TensorRole::kExpertDown, "blk.{}.ffn_down_exps.weight"},
    {TensorRole::kExpertGateBias, "blk.{}.ffn_gate_exps.bias"},
    {TensorRole::kExpertUpBias, "blk.{}.ffn_up_exps.bias"},
    {TensorRole::kExpertDownBias, "blk.{}.ffn_down_exps.bias"},
    {TensorRole::kSharedRouter, "blk.{}.ffn_gate_inp_shexp.weight"},
    {TensorRole::kSharedGate, "blk.{}.ffn_gate_shexp.weight"},
    {TensorRole::kSharedUp, "blk.{}.ffn_up_shexp.weight"},
    {TensorRole::kSharedDown, "blk.{}.ffn_down_shexp.weight"},
    {TensorRole::kCommonGate, "blk.{}.ffn_gate_shexp.weight"},
    {TensorRole::kCommonUp, "blk.{}.ffn_up_shexp.weight"},
    {TensorRole::kCommonDown, "blk.{}.ffn_down_shexp.weight"},
};
constexpr TensorRule kNorms[] = {
    {TensorRole::kAttentionNorm, "blk.{}.attn_norm.weight"},
    {TensorRole::kAttentionNormBias, "blk.{}.attn_norm.bias"},
    {TensorRole::kMlpNorm, "blk.{}.ffn_norm.weight"},
    {TensorRole::kMlpNormBias, "blk.{}.ffn_norm.bias"},
};
// Falcon variants with separate norms for attention and MLP.
constexpr std::string_view kSecondNorm = "blk.0.attn_norm_2.weight";
constexpr TensorRule kTwoNorms[] = {
    {TensorRole::kAttentionNorm, "blk.{}.attn_norm_2.weight"},
    {TensorRole::kAttentionNormBias, "blk.{}.attn_norm_2.bias"},
    {TensorRole::kMlpNorm, "blk.{}.attn_norm.weight"},
    {TensorRole::kMlpNormBias, "blk.{}.attn_norm.bias"},
};
constexpr std::string_view kRopeFactors = "rope_freqs.weight", kLongFactors = "rope_factors_long.weight",
                           kShortFactors = "rope_factors_short.weight";

const FileTensor* FindTensor(const GgufFile& file, std::string_view name) {
  const auto& tensors = file.tensors();
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

Status ReadGgufSizes(const GgufFile& file, const GgufKeys& keys, ModelSpec* spec) {
  RETURN_IF_ERROR(keys.Need("block_count", &spec->layers));
  int64_t drafts = 0;  // layers of multi-token prediction, the last ones
  RETURN_IF_ERROR(keys.Optional("nextn_predict_layers", &drafts));
  if (drafts < 0 || drafts > 16) {
    return InvalidArgument(
        fmt::format("the file's '{}' is {}; it must be 0 to 16", keys.Name("nextn_predict_layers"), drafts));
  }
  spec->layers -= drafts;
  RETURN_IF_ERROR(keys.Need("embedding_length", &spec->hidden));
  RETURN_IF_ERROR(keys.Need("attention.head_count", &spec->heads));
  RETURN_IF_ERROR(CheckLayers(*spec));
  // Gemma 4 has a list for its layers; models whose layers all have experts may lack the key.
  if (const auto list = file.Ints(keys.Name("feed_forward_length")); list && !list->empty()) {
    spec->ffn = list->front();
  } else if (keys.Has("feed_forward_length") || !keys.Has("expert_feed_forward_length")) {
    RETURN_IF_ERROR(keys.Need("feed_forward_length", &spec->ffn));
  }
  RETURN_IF_ERROR(keys.Need("context_length", &spec->trained_context));
  spec->kv_heads = spec->heads;
  if (keys.Has("attention.head_count_kv")) {  // of the first layer with attention
    std::vector<int64_t> kv_heads;
    RETURN_IF_ERROR(keys.NeedPerLayer("attention.head_count_kv", spec->layers, &kv_heads));
    const auto attention = std::ranges::find_if(kv_heads, [](int64_t heads) { return heads != 0; });
    spec->kv_heads = attention != kv_heads.end() ? *attention : 0;
  }
  if (spec->heads < 1) return InvalidArgument(fmt::format("the model's number of heads is {}", spec->heads));
  spec->head_dim = spec->hidden / spec->heads;
  if (!keys.Has("attention.key_length") && spec->hidden % spec->heads != 0) {
    return InvalidArgument(
        fmt::format("the model's hidden size {} is not a multiple of its {} heads", spec->hidden, spec->heads));
  }
  RETURN_IF_ERROR(keys.Optional("attention.key_length", &spec->head_dim));
  int64_t value_length = spec->head_dim;
  RETURN_IF_ERROR(keys.Optional("attention.value_length", &value_length));
  const bool latent = keys.Has("attention.kv_lora_rank");  // has one key for all heads, which contains the value
  if (value_length != spec->head_dim && !latent) {
    return InvalidArgument(
        fmt::format("the model's keys of {} and values of {} differ in size", spec->head_dim, value_length));
  }
  RETURN_IF_ERROR(keys.Optional("expert_count", &spec->experts));
  RETURN_IF_ERROR(keys.Optional("expert_used_count", &spec->experts_used));
  if (spec->experts > 0) RETURN_IF_ERROR(keys.Optional("expert_feed_forward_length", &spec->ffn));
  int64_t window = 0;
  RETURN_IF_ERROR(keys.Optional("attention.sliding_window", &window));
  if (window != 0) spec->layer_traits.assign(static_cast<size_t>(spec->layers), {.window = window});
  const FileTensor* embedding = FindTensor(file, "token_embd.weight");
  if (embedding == nullptr) return Corruption("tensor 'token_embd.weight' is missing");
  spec->vocab = embedding->shape.front();
  int64_t vocab = spec->vocab;
  RETURN_IF_ERROR(keys.Optional("vocab_size", &vocab));
  if (vocab != spec->vocab) {
    return InvalidArgument(
        fmt::format("the file's '{}' is {}, its embedding has {} rows", keys.Name("vocab_size"), vocab, spec->vocab));
  }
  return Status::Ok();
}

// Features of other models with these architectures that are not supported; some are supported for one architecture
// only.
Status RejectUnsupportedFeatures(const GgufKeys& keys, std::string_view architecture) {
  for (const std::string_view key :
       {"attention.scale", "logit_scale", "residual_scale", "embedding_scale", "attention.max_alibi_bias",
        "attention.clamp_kqv", "expert_weights_scale", "leading_dense_block_count", "attn_logit_softcapping",
        "final_logit_softcapping"}) {
    const bool scale = key.find("scale") != std::string_view::npos && key != "expert_weights_scale";
    if (architecture.starts_with("granite") && scale) continue;
    if ((architecture == "command-r" || architecture == "cohere2") && key == "logit_scale") continue;
    const bool mixture = architecture == "deepseek2" || architecture == "lfm2moe";
    if (mixture && (key == "expert_weights_scale" || key == "leading_dense_block_count")) continue;
    if (architecture == "mpt" && key == "attention.max_alibi_bias") continue;
    if (architecture == "gemma2" && key.ends_with("softcapping")) continue;
    if (architecture == "gemma4" && key == "final_logit_softcapping") continue;
    double value = 0;
    RETURN_IF_ERROR(keys.Optional(key, &value));
    if (value != 0)
      return InvalidArgument(fmt::format("the file's '{}' is {}, which is not supported", keys.Name(key), value));
  }
  return Status::Ok();
}

Status ReadFactors(const FileTensor& factors, RopeScaling* scaling) {
  if (scaling->kind != RopeScaling::Kind::kNone || factors.data.dtype != DType::kF32 || factors.shape.size() != 1) {
    return InvalidArgument(
        fmt::format("tensor '{}' is not a float32 vector or does not match the rope scaling", factors.name));
  }
  scaling->kind = RopeScaling::Kind::kFactors;
  std::vector<float> values(static_cast<size_t>(factors.shape[0]));
  std::memcpy(values.data(), factors.data.bytes.data(), factors.data.bytes.size());
  scaling->factors.assign(values.begin(), values.end());
  return Status::Ok();
}

Status ReadRope(const GgufFile& file, const GgufKeys& keys, ModelSpec* spec) {
  RopeScaling scaling;
  spec->rotary = spec->head_dim;
  RETURN_IF_ERROR(keys.Optional("rope.dimension_count", &spec->rotary));
  RETURN_IF_ERROR(ValidateSpec(*spec));
  RETURN_IF_ERROR(keys.Optional("rope.freq_base", &scaling.base));
  RETURN_IF_ERROR(keys.Optional("rope.scale_linear", &scaling.factor));  // the older spelling
  const bool scaled = keys.Has("rope.scale_linear") && scaling.factor != 1;
  RETURN_IF_ERROR(keys.Optional("rope.scaling.factor", &scaling.factor));
  if (keys.Has("rope.scaling.type") && !keys.String("rope.scaling.type")) {
    return InvalidArgument(fmt::format("the file's '{}' is not a string", keys.Name("rope.scaling.type")));
  }
  const std::string type = keys.String("rope.scaling.type").value_or(scaled ? "linear" : "none");
  if (type == "linear") {
    scaling.kind = RopeScaling::Kind::kLinear;
  } else if (type == "yarn") {
    scaling.kind = RopeScaling::Kind::kYarn;
    scaling.original_context = static_cast<double>(spec->trained_context);
    RETURN_IF_ERROR(keys.Optional("rope.scaling.original_context_length", &scaling.original_context));
    RETURN_IF_ERROR(keys.Optional("rope.scaling.yarn_beta_fast", &scaling.beta_fast));
    RETURN_IF_ERROR(keys.Optional("rope.scaling.yarn_beta_slow", &scaling.beta_slow));
    scaling.truncate = spec->architecture != "gpt-oss";  // the file does not store it
    if (spec->latent.rank > 0) scaling.magnitude = 1;    // the scores are scaled instead
  } else if (type != "none") {
    return InvalidArgument(fmt::format("rope scaling '{}' is not supported", type));
  }
  double original = static_cast<double>(spec->trained_context);
  RETURN_IF_ERROR(keys.Optional("rope.scaling.original_context_length", &original));
  // The long factors if the context exceeds the original one (Ding et al. 2024).
  const bool longer = static_cast<double>(spec->trained_context) > original;
  for (const std::string_view name : {kRopeFactors, longer ? kLongFactors : kShortFactors}) {
    if (const FileTensor* factors = FindTensor(file, name)) RETURN_IF_ERROR(ReadFactors(*factors, &scaling));
  }
  ASSIGN_OR_RETURN(Rotation rotation, MakeRotation(scaling, spec->rotary));
  spec->scaled_context = ScaledContext(scaling);
  double attention_factor = 1;  // in addition to YaRN's own
  RETURN_IF_ERROR(keys.Optional("rope.scaling.attn_factor", &attention_factor));
  if (!(attention_factor > 0 && attention_factor < 1e6)) {
    return InvalidArgument(fmt::format("the file's '{}' is {}; it must be above 0 and below 1e6",
                                       keys.Name("rope.scaling.attn_factor"), attention_factor));
  }
  rotation.magnitude *= attention_factor;
  spec->rotations.push_back(std::move(rotation));
  const auto own = [](const LayerTraits& layer) { return layer.rotation == 1; };
  if (std::none_of(spec->layer_traits.begin(), spec->layer_traits.end(), own)) return Status::Ok();
  RopeScaling windows;  // Gemma 3: windowed layers are never scaled
  RETURN_IF_ERROR(keys.Optional("rope.freq_base_swa", &windows.base));
  int64_t rotary = spec->rotary;
  RETURN_IF_ERROR(keys.Optional("rope.dimension_count_swa", &rotary));
  if (rotary < 2 || rotary > spec->rotary) {
    return InvalidArgument(fmt::format("the file's '{}' is {}; it must be 2 to {}",
                                       keys.Name("rope.dimension_count_swa"), rotary, spec->rotary));
  }
  ASSIGN_OR_RETURN(rotation, MakeRotation(windows, rotary));
  spec->rotations.push_back(std::move(rotation));
  return Status::Ok();
}

// In GGUF, the presence of an optional tensor in the first layer (with attention) is the flag; it must then exist in
// every layer.
void FindOptional(const GgufFile& file, ModelSpec* spec) {
  const auto has = [&](std::string_view name) { return FindTensor(file, name) != nullptr; };
  int64_t layer = 0;
  while (layer + 1 < spec->layers && !spec->IsAttention(layer)) ++layer;
  const auto attention = [&](std::string_view name) { return has(fmt::format("blk.{}.attn_{}", layer, name)); };
  spec->tied_head = !has("output.weight");
  spec->head_bias = has("output.bias");
  spec->fused_qkv = attention("qkv.weight");
  spec->qkv_bias = attention(spec->fused_qkv ? "qkv.bias" : "q.bias");
  spec->attention_out_bias = attention("output.bias");
  spec->mlp_bias = has(spec->experts > 0 ? "blk.0.ffn_up_exps.bias" : "blk.0.ffn_up.bias");
  spec->latent.separate_parts = spec->latent.rank > 0 && has("blk.0.attn_k_b.weight");
  spec->router_correction = spec->experts > 0 && has(fmt::format("blk.{}.exp_probs_b.bias", spec->layers - 1));
  spec->sinks = has("blk.0.attn_sinks.weight");
  spec->norm_biases = spec->norm == NormKind::kLayer && has("output_norm.bias");
  if (spec->architecture == "gemma4") {
    for (int64_t layer = 0; layer < std::ssize(spec->layer_traits); ++layer) {
      LayerTraits& traits = spec->layer_traits[static_cast<size_t>(layer)];
      traits.keys_are_values = traits.keys_of < 0 && !has(fmt::format("blk.{}.attn_v.weight", layer));
    }
  }
  if (spec->encoder_layers == 0) return;
  spec->gated = has("dec.blk.0.ffn_gate.weight");  // T5 1.1 and later
  spec->activation = spec->gated ? Activation::kGeluTanh : Activation::kRelu;
  if (spec->tied_head) spec->logit_scale = 1 / std::sqrt(static_cast<float>(spec->hidden));
}

std::vector<std::string_view> SupportedArchitectures() {
  std::vector<std::string_view> names;
  for (const GgufFamily& family : GgufFamilies()) names.push_back(family.architecture);
  return names;
}

std::vector<TensorRule> Rules(std::span<const TensorRule> norms, std::span<const TensorRule> own = {}) {
  const std::span<const TensorRule> parts[] = {kGgufRules, norms, own};
  return JoinRules(parts);
}

}  // namespace

std::vector<TensorRule> GgufRules() { return Rules(kNorms); }

Result<NetworkPlan> PlanGguf(const GgufFile& file, const std::string& path) {
  NetworkPlan plan;
  ModelSpec& spec = plan.spec;
  const auto architecture = file.String("general.architecture");
  if (!architecture) return InvalidArgument("the file's 'general.architecture' is missing");
  spec.architecture = *architecture;
  spec.name = file.String("general.name").value_or(std::filesystem::path(path).stem().string());
  const auto families = GgufFamilies();
  const auto family =
      std::ranges::find_if(families, [&](const GgufFamily& known) { return known.architecture == spec.architecture; });
  if (family == families.end()) return UnsupportedArchitecture(spec.architecture, SupportedArchitectures());
  spec.rope_pairs = family->pairs;
  const GgufKeys keys(file, spec.architecture);
  RETURN_IF_ERROR(RejectUnsupportedFeatures(keys, spec.architecture));
  RETURN_IF_ERROR(ReadGgufSizes(file, keys, &spec));
  const bool rms = keys.Has("attention.layer_norm_rms_epsilon");
  spec.norm_eps = 0;  // rejected if it remains 0
  RETURN_IF_ERROR(
      keys.Optional(rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", &spec.norm_eps));
  RETURN_IF_ERROR(family->set(keys, &spec));
  FindOptional(file, &spec);
  const bool two_norms = FindTensor(file, kSecondNorm) != nullptr;
  if (spec.architecture == "falcon") spec.shared_norm = !two_norms;
  if (spec.rope_pairs == RopePairs::kNone)
    RETURN_IF_ERROR(ValidateSpec(spec));
  else
    RETURN_IF_ERROR(ReadRope(file, keys, &spec));
  std::span<const TensorRule> norms = kNorms;
  if (two_norms) norms = kTwoNorms;
  if (spec.encoder_layers > 0) {
    PlanTensors(GgufT5Rules(), "", &plan);
    plan.ignored.emplace_back("dec.blk.0.cross_attn_rel_b.weight");
    return plan;
  }
  PlanTensors(Rules(norms, spec.architecture == "gemma4" ? GgufGemma4Rules() : family->rules), "", &plan);
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    if (spec.OwnsKeys(layer)) continue;
    for (const char* name : {"attn_k", "attn_v", "attn_k_norm"}) {
      plan.ignored.push_back(fmt::format("blk.{}.{}.weight", layer, name));
    }
  }
  for (PlannedTensor& planned : plan.tensors) {
    if (planned.role == TensorRole::kSharedRouter) planned.shape = {spec.hidden};  // stored as a vector
    if (planned.role == TensorRole::kConvolution) planned.shape = {spec.recurrence.channels(), spec.recurrence.kernel};
  }
  int64_t blocks = spec.layers;
  RETURN_IF_ERROR(keys.Optional("block_count", &blocks));
  for (int64_t draft = spec.layers; draft < blocks; ++draft) plan.skipped.push_back(fmt::format("blk.{}.", draft));
  for (const std::string_view read : {kRopeFactors, kLongFactors, kShortFactors}) {
    if (spec.rope_pairs != RopePairs::kNone) plan.ignored.emplace_back(read);  // read above
  }
  return plan;
}

}  // namespace ringside
