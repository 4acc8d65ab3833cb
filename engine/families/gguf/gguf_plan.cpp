// Hyper-parameters and tensor names as written by llama.cpp's GGUF converters.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "engine/families/gguf/gguf_families.h"
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
    {TensorRole::kQueryGate, "blk.{}.attn_gate.weight"},
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
    {TensorRole::kExpertGateUp, "blk.{}.ffn_gate_up_exps.weight"},
    {TensorRole::kExpertDown, "blk.{}.ffn_down_exps.weight"},
    {TensorRole::kExpertsIn, "blk.{}.ffn_latent_down.weight"},
    {TensorRole::kExpertsOut, "blk.{}.ffn_latent_up.weight"},
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
    {TensorRole::kRecurrentIn, "blk.{}.ssm_in.weight"},
    {TensorRole::kConvolution, "blk.{}.ssm_conv1d.weight"},
    {TensorRole::kConvolutionBias, "blk.{}.ssm_conv1d.bias"},
    {TensorRole::kRateBias, "blk.{}.ssm_dt.bias"},
    {TensorRole::kRate, "blk.{}.ssm_a"},
    {TensorRole::kSkip, "blk.{}.ssm_d"},
    {TensorRole::kRecurrentNorm, "blk.{}.ssm_norm.weight"},
    {TensorRole::kRecurrentOut, "blk.{}.ssm_out.weight"},
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

/// The first number that is not 0, of one for all layers or of a list: hybrids have a 0 for other layers. 0 if there is
/// none.
Status NeedFirst(const GgufKeys& keys, std::string_view key, int64_t layers, int64_t* value) {
  std::vector<int64_t> values;
  RETURN_IF_ERROR(keys.NeedPerLayer(key, layers, &values));
  const auto first = std::ranges::find_if(values, [](int64_t one) { return one != 0; });
  *value = first != values.end() ? *first : 0;
  return Status::Ok();
}

Status ReadGgufSizes(const GgufKeys& keys, ModelSpec* spec) {
  RETURN_IF_ERROR(keys.Need("block_count", &spec->layers));
  int64_t drafts = 0;  // layers of multi-token prediction, the last ones
  RETURN_IF_ERROR(keys.Optional("nextn_predict_layers", &drafts));
  if (drafts < 0 || drafts > 16) {
    return InvalidArgument(
        fmt::format("the file's '{}' is {}; it must be 0 to 16", keys.Name("nextn_predict_layers"), drafts));
  }
  spec->layers -= drafts;
  RETURN_IF_ERROR(keys.Need("embedding_length", &spec->hidden));
  RETURN_IF_ERROR(CheckLayers(*spec));
  RETURN_IF_ERROR(NeedFirst(keys, "attention.head_count", spec->layers, &spec->heads));
  // Models whose layers all have experts may lack the key.
  if (keys.Has("feed_forward_length") || !keys.Has("expert_feed_forward_length")) {
    RETURN_IF_ERROR(NeedFirst(keys, "feed_forward_length", spec->layers, &spec->ffn));
  }
  RETURN_IF_ERROR(keys.Need("context_length", &spec->trained_context));
  spec->kv_heads = spec->heads;
  if (keys.Has("attention.head_count_kv")) {
    RETURN_IF_ERROR(NeedFirst(keys, "attention.head_count_kv", spec->layers, &spec->kv_heads));
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
  const FileTensor* embedding = keys.Tensor("token_embd.weight");
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

// Features of other models with these architectures that are not supported.
Status RejectUnsupportedFeatures(const GgufKeys& keys, std::span<const std::string_view> read) {
  for (const std::string_view key :
       {"attention.scale", "logit_scale", "residual_scale", "embedding_scale", "attention.max_alibi_bias",
        "attention.clamp_kqv", "expert_weights_scale", "leading_dense_block_count", "attn_logit_softcapping",
        "final_logit_softcapping", "attention.indexer.head_count"}) {
    double value = 0;
    if (std::ranges::find(read, key) == read.end()) RETURN_IF_ERROR(keys.Optional(key, &value));
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

/// Method and parameters of long contexts, and the base.
Status ReadScaling(const GgufKeys& keys, const ModelSpec& spec, RopeScaling* scaling) {
  RETURN_IF_ERROR(keys.Optional("rope.freq_base", &scaling->base));
  RETURN_IF_ERROR(keys.Optional("rope.scale_linear", &scaling->factor));  // the older spelling
  const bool scaled = keys.Has("rope.scale_linear") && scaling->factor != 1;
  RETURN_IF_ERROR(keys.Optional("rope.scaling.factor", &scaling->factor));
  if (keys.Has("rope.scaling.type") && !keys.String("rope.scaling.type")) {
    return InvalidArgument(fmt::format("the file's '{}' is not a string", keys.Name("rope.scaling.type")));
  }
  const std::string type = keys.String("rope.scaling.type").value_or(scaled ? "linear" : "none");
  const double context = static_cast<double>(spec.trained_context);
  double original = context;
  RETURN_IF_ERROR(keys.Optional("rope.scaling.original_context_length", &original));
  if (type == "linear") {
    scaling->kind = RopeScaling::Kind::kLinear;
  } else if (type == "yarn") {
    scaling->kind = RopeScaling::Kind::kYarn;
    scaling->original_context = original;
    RETURN_IF_ERROR(keys.Optional("rope.scaling.yarn_beta_fast", &scaling->beta_fast));
    RETURN_IF_ERROR(keys.Optional("rope.scaling.yarn_beta_slow", &scaling->beta_slow));
    scaling->truncate = spec.architecture != "gpt-oss";  // the file does not store it
    double multiplier = 0;
    RETURN_IF_ERROR(keys.Optional("rope.scaling.yarn_log_multiplier", &multiplier));
    if (spec.latent.rank > 0) {
      scaling->magnitude = 1;  // the scores are scaled instead
    } else if (multiplier != 0 && scaling->factor > 1) {
      const double stretch = 0.1 * std::log(scaling->factor);
      scaling->magnitude = (1 + stretch) / (1 + multiplier * stretch);
    }
    RETURN_IF_ERROR(keys.Optional("rope.scaling.yarn_attn_factor", &scaling->magnitude));
  } else if (type != "none" && type != "longrope") {
    return InvalidArgument(fmt::format("rope scaling '{}' is not supported", type));
  }
  // The long factors if the context exceeds the original one (Ding et al. 2024).
  for (const std::string_view name : {kRopeFactors, context > original ? kLongFactors : kShortFactors}) {
    if (const FileTensor* factors = keys.Tensor(name)) RETURN_IF_ERROR(ReadFactors(*factors, scaling));
  }
  if (type != "longrope" || scaling->kind == RopeScaling::Kind::kFactors) return Status::Ok();
  return InvalidArgument("rope scaling 'longrope' is not supported without the tensors of its factors");
}

/// No layer rotates more dimensions than its heads have.
Status CheckRotations(const ModelSpec& spec) {
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    const int rotation = spec.Layer(layer).rotation;
    if (!spec.IsAttention(layer) || rotation < 0) continue;
    const int64_t rotated = 2 * std::ssize(spec.rotations[static_cast<size_t>(rotation)].inverse_frequencies);
    if (rotated <= spec.KvSizes(layer).head_dim) continue;
    return InvalidArgument(fmt::format("the model's layer {} rotates {} dimensions of heads with {}", layer, rotated,
                                       spec.KvSizes(layer).head_dim));
  }
  return Status::Ok();
}

Status ReadRope(const GgufKeys& keys, const GgufFamily& family, ModelSpec* spec) {
  int64_t rotary = spec->head_dim;
  RETURN_IF_ERROR(keys.Optional("rope.dimension_count", &rotary));
  const auto own = [](const LayerTraits& layer) { return layer.rotation == 1; };
  const bool windows_differ = std::ranges::any_of(spec->layer_traits, own);
  int64_t windows_rotary = rotary;
  if (windows_differ) RETURN_IF_ERROR(keys.Optional("rope.dimension_count_swa", &windows_rotary));
  spec->rotary = std::max(rotary, windows_rotary);
  RETURN_IF_ERROR(ValidateSpec(*spec));
  for (const int64_t dimensions : {rotary, windows_rotary}) {
    if (dimensions >= 2 && dimensions % 2 == 0) continue;
    return InvalidArgument(fmt::format("the file's '{}' or '{}' is {}; it must be even and at least 2",
                                       keys.Name("rope.dimension_count"), keys.Name("rope.dimension_count_swa"),
                                       dimensions));
  }
  RopeScaling scaling;
  RETURN_IF_ERROR(ReadScaling(keys, *spec, &scaling));
  ASSIGN_OR_RETURN(Rotation rotation, MakeRotation(scaling, rotary));
  spec->scaled_context = ScaledContext(scaling);
  double attention_factor = 1;  // in addition to YaRN's own
  RETURN_IF_ERROR(keys.Optional("rope.scaling.attn_factor", &attention_factor));
  if (!(attention_factor > 0 && attention_factor < 1e6)) {
    return InvalidArgument(fmt::format("the file's '{}' is {}; it must be above 0 and below 1e6",
                                       keys.Name("rope.scaling.attn_factor"), attention_factor));
  }
  rotation.magnitude *= attention_factor;
  if (const auto sections = keys.Ints("rope.dimension_sections")) {
    SetAxes(*sections, family.interleaved_axes, &rotation);
  }
  spec->rotations.push_back(std::move(rotation));
  if (!windows_differ) return CheckRotations(*spec);
  RopeScaling windows;  // windowed layers are never scaled
  if (family.one_rope_base) windows.base = scaling.base;
  RETURN_IF_ERROR(keys.Optional("rope.freq_base_swa", &windows.base));
  ASSIGN_OR_RETURN(rotation, MakeRotation(windows, windows_rotary));
  spec->rotations.push_back(std::move(rotation));
  return CheckRotations(*spec);
}

/// Whether some layer has this tensor.
bool AnyLayerHas(const GgufKeys& keys, const ModelSpec& spec, std::string_view name) {
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    if (keys.HasTensor(fmt::format("blk.{}.{}", layer, name))) return true;
  }
  return false;
}

// In GGUF, the presence of an optional tensor in the first layer (with attention) is the flag; it must then exist in
// every layer.
void FindOptional(const GgufKeys& keys, ModelSpec* spec) {
  int64_t layer = 0;
  while (layer + 1 < spec->layers && !spec->IsAttention(layer)) ++layer;
  const auto attention = [&](std::string_view name) {
    return keys.HasTensor(fmt::format("blk.{}.attn_{}", layer, name));
  };
  spec->tied_head = !keys.HasTensor("output.weight");
  spec->head_bias = keys.HasTensor("output.bias");
  spec->fused_qkv = attention("qkv.weight");
  spec->qkv_bias = attention(spec->fused_qkv ? "qkv.bias" : "q.bias");
  spec->attention_out_bias = attention("output.bias");
  spec->mlp_bias = keys.HasTensor(spec->experts > 0 ? "blk.0.ffn_up_exps.bias" : "blk.0.ffn_up.bias");
  spec->latent.separate_parts = spec->latent.rank > 0 && attention("k_b.weight");
  spec->router_correction = spec->experts > 0 && AnyLayerHas(keys, *spec, "exp_probs_b.bias");
  spec->fused_experts = spec->experts > 0 && AnyLayerHas(keys, *spec, "ffn_gate_up_exps.weight");
  spec->sinks = attention("sinks.weight");
  spec->norm_biases = spec->norm == NormKind::kLayer && keys.HasTensor("output_norm.bias");
  if (spec->encoder_layers == 0) return;
  spec->gated = keys.HasTensor("dec.blk.0.ffn_gate.weight");  // T5 1.1 and later
  spec->activation = spec->gated ? Activation::kGeluTanh : Activation::kRelu;
  if (spec->tied_head) spec->logit_scale = 1 / std::sqrt(static_cast<float>(spec->hidden));
}

std::vector<TensorRule> Rules(std::span<const TensorRule> norms, std::span<const TensorRule> own = {}) {
  const std::span<const TensorRule> parts[] = {kGgufRules, norms, own};
  return JoinRules(parts);
}

/// Files differ in dimensions of 1 of tensors that are loaded by their values.
bool IsLoadedByValue(TensorRole role) {
  static constexpr TensorRole kRoles[] = {TensorRole::kConvolution,    TensorRole::kQueryConvolution,
                                          TensorRole::kKeyConvolution, TensorRole::kValueConvolution,
                                          TensorRole::kRate,           TensorRole::kSkip,
                                          TensorRole::kRecurrentNorm,  TensorRole::kRouterCorrection,
                                          TensorRole::kStreamScale};
  return std::ranges::find(kRoles, role) != std::end(kRoles);
}

void AlignShapes(const GgufKeys& keys, NetworkPlan* plan) {
  const ModelSpec& spec = plan->spec;
  const auto without_ones = [](std::vector<int64_t> shape) {
    std::erase(shape, 1);
    return shape;
  };
  for (PlannedTensor& planned : plan->tensors) {
    if (planned.role == TensorRole::kSharedRouter) planned.shape = {spec.hidden};  // stored as a vector
    if (planned.role == TensorRole::kRecurrentNorm && spec.recurrent_groups > 0) {
      planned.shape = {spec.recurrent_groups, planned.shape.front() / spec.recurrent_groups};
    }
    if (!IsLoadedByValue(planned.role)) continue;
    const FileTensor* tensor = keys.Tensor(planned.name);
    if (tensor != nullptr && without_ones(tensor->shape) == without_ones(planned.shape)) planned.shape = tensor->shape;
  }
}

constexpr TensorRule kDraftTensors[] = {
    {TensorRole::kDraftProjection, "blk.{}.nextn.eh_proj.weight"},
    {TensorRole::kDraftEmbeddingNorm, "blk.{}.nextn.enorm.weight"},
    {TensorRole::kDraftHiddenNorm, "blk.{}.nextn.hnorm.weight"},
    {TensorRole::kDraftNorm, "blk.{}.nextn.shared_head_norm.weight"},
};
constexpr std::string_view kDraftCopies[] = {"blk.{}.nextn.embed_tokens.weight",
                                             "blk.{}.nextn.shared_head_head.weight"};

/// Plans the draft layer, if the file has all its tensors; of several the first.
void PlanDraftLayer(const GgufKeys& keys, std::span<const TensorRule> rules, NetworkPlan* plan) {
  const DraftRules draft{"", kDraftTensors, kDraftCopies};
  const bool has = std::ranges::all_of(kDraftTensors, [&](const TensorRule& rule) {
    return keys.HasTensor(DraftName(rule.name, "", draft, plan->spec.layers));
  });
  if (!has || plan->spec.encoder_layers > 0) return;
  AddDraftLayer(&plan->spec);
  PlanDraftTensors(rules, "", draft, plan);
}

/// Tensors of layers that share keys, of draft layers, and those that are read with the metadata.
Status SkipTensors(const GgufKeys& keys, NetworkPlan* plan) {
  const ModelSpec& spec = plan->spec;
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    if (spec.OwnsKeys(layer)) continue;
    for (const char* name : {"attn_k", "attn_v", "attn_k_norm"}) {
      plan->ignored.push_back(fmt::format("blk.{}.{}.weight", layer, name));
    }
  }
  int64_t blocks = spec.layers;
  RETURN_IF_ERROR(keys.Optional("block_count", &blocks));
  for (int64_t draft = spec.all_layers(); draft < blocks; ++draft)
    plan->skipped.push_back(fmt::format("blk.{}.", draft));
  for (const std::string_view read : {kRopeFactors, kLongFactors, kShortFactors}) {
    if (spec.rope_pairs != RopePairs::kNone) plan->ignored.emplace_back(read);
  }
  return Status::Ok();
}

}  // namespace

std::vector<TensorRule> GgufRules() { return Rules(kNorms); }

Result<NetworkPlan> PlanGguf(const GgufFile& file, const std::string& path, DraftLayer draft) {
  NetworkPlan plan;
  ModelSpec& spec = plan.spec;
  const auto architecture = file.String("general.architecture");
  if (!architecture) return InvalidArgument("the file's 'general.architecture' is missing");
  spec.architecture = *architecture;
  spec.name = file.String("general.name").value_or(std::filesystem::path(path).stem().string());
  const GgufFamily* family = FindGgufFamily(spec.architecture);
  if (family == nullptr) return UnsupportedArchitecture(spec.architecture, GgufArchitectures());
  spec.rope_pairs = family->pairs;
  const GgufKeys keys(file, spec.architecture);
  RETURN_IF_ERROR(RejectUnsupportedFeatures(keys, family->reads));
  RETURN_IF_ERROR(ReadGgufSizes(keys, &spec));
  const bool rms = keys.Has("attention.layer_norm_rms_epsilon");
  spec.norm_eps = 0;  // rejected if it remains 0
  RETURN_IF_ERROR(
      keys.Optional(rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", &spec.norm_eps));
  RETURN_IF_ERROR(family->set(keys, &spec));
  FindOptional(keys, &spec);
  const bool two_norms = keys.HasTensor(kSecondNorm);
  if (spec.architecture == "falcon") spec.shared_norm = !two_norms;
  if (spec.rope_pairs == RopePairs::kNone)
    RETURN_IF_ERROR(ValidateSpec(spec));
  else
    RETURN_IF_ERROR(ReadRope(keys, *family, &spec));
  std::span<const TensorRule> norms = kNorms;
  if (two_norms) norms = kTwoNorms;
  if (spec.encoder_layers > 0) {
    PlanTensors(GgufT5Rules(), "", &plan);
    plan.ignored.emplace_back("dec.blk.0.cross_attn_rel_b.weight");
    return plan;
  }
  const std::vector<TensorRule> rules = Rules(norms, family->rules);
  PlanTensors(rules, "", &plan);
  if (draft == DraftLayer::kPlan) PlanDraftLayer(keys, rules, &plan);
  AlignShapes(keys, &plan);
  RETURN_IF_ERROR(SkipTensors(keys, &plan));
  return plan;
}

}  // namespace ringside
