// Families with Llama's tensor names.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/families/huggingface/llama_names.h"
#include "engine/families/rope_scaling.h"

namespace ringside {
namespace {

constexpr TensorRule kStarcoderMlp[] = {
    {TensorRole::kUp, "layers.{}.mlp.c_fc.weight"},
    {TensorRole::kUpBias, "layers.{}.mlp.c_fc.bias"},
    {TensorRole::kDown, "layers.{}.mlp.c_proj.weight"},
    {TensorRole::kDownBias, "layers.{}.mlp.c_proj.bias"},
};
constexpr TensorRule kQwenVlExperts[] = {
    {TensorRole::kRouter, "layers.{}.mlp.gate.weight"},
    {TensorRole::kExpertGateUp, "layers.{}.mlp.experts.gate_up_proj", true},
    {TensorRole::kExpertDown, "layers.{}.mlp.experts.down_proj", true},
};
constexpr TensorRule kGptOssExperts[] = {
    {TensorRole::kRouter, "layers.{}.mlp.router.weight"},
    {TensorRole::kRouterBias, "layers.{}.mlp.router.bias"},
    {TensorRole::kExpertGateUp, "layers.{}.mlp.experts.gate_up_proj", true, RowOrder::kAlternating},
    {TensorRole::kExpertDown, "layers.{}.mlp.experts.down_proj", true},
    {TensorRole::kExpertGateUpBias, "layers.{}.mlp.experts.gate_up_proj_bias", false, RowOrder::kAlternating},
    {TensorRole::kExpertDownBias, "layers.{}.mlp.experts.down_proj_bias"},
};

Status ReadBiases(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(config.Optional("attention_bias", &spec->qkv_bias));
  spec->attention_out_bias = spec->qkv_bias;
  return config.Optional("mlp_bias", &spec->mlp_bias);
}

Status ReadLlama(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadBase(config, spec));
  RETURN_IF_ERROR(ReadBiases(config, spec));
  return ReadRotations(config, spec);
}

Status ReadMistral(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadBase(config, spec));
  RETURN_IF_ERROR(ReadWindows(config, EveryLayer, spec));
  return ReadRotations(config, spec);
}

Status ReadMixtral(const ConfigJson& config, ModelSpec* spec) {
  spec->experts_normalised = true;
  RETURN_IF_ERROR(config.Need("num_local_experts", &spec->experts));
  RETURN_IF_ERROR(config.Need("num_experts_per_tok", &spec->experts_used));
  return ReadMistral(config, spec);
}

// Windows apply only if enabled, and then from one layer on.
Status ReadQwenWindows(const ConfigJson& config, ModelSpec* spec) {
  bool used = false;
  RETURN_IF_ERROR(config.Optional("use_sliding_window", &used));
  if (!used) return Status::Ok();
  RETURN_IF_ERROR(ReadWindows(config, EveryLayer, spec));
  int64_t full_layers = 0;
  if (!config.Has("layer_types")) RETURN_IF_ERROR(config.Optional("max_window_layers", &full_layers));
  for (int64_t layer = 0; layer < std::min(full_layers, spec->layers); ++layer) {
    spec->layer_traits[static_cast<size_t>(layer)].window = 0;
  }
  return Status::Ok();
}

Status ReadQwen2(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadBase(config, spec));
  spec->qkv_bias = true;
  RETURN_IF_ERROR(ReadQwenWindows(config, spec));
  return ReadRotations(config, spec);
}

Status ReadQwen3(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadBase(config, spec));
  RETURN_IF_ERROR(config.Optional("attention_bias", &spec->qkv_bias));
  spec->attention_out_bias = spec->qkv_bias;
  spec->qk_norm = QkNorm::kHeads;
  RETURN_IF_ERROR(ReadQwenWindows(config, spec));
  return ReadRotations(config, spec);
}

Status ReadQwen2Moe(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadQwenExperts(config, spec));
  RETURN_IF_ERROR(config.Need("shared_expert_intermediate_size", &spec->shared_ffn));
  RETURN_IF_ERROR(ReadBase(config, spec));
  RETURN_IF_ERROR(config.Need("moe_intermediate_size", &spec->ffn));
  spec->qkv_bias = true;
  RETURN_IF_ERROR(config.Optional("qkv_bias", &spec->qkv_bias));
  RETURN_IF_ERROR(ReadQwenWindows(config, spec));
  return ReadRotations(config, spec);
}

Status ReadQwen3Moe(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadQwenExperts(config, spec));
  RETURN_IF_ERROR(ReadQwen3(config, spec));
  RETURN_IF_ERROR(config.Need("moe_intermediate_size", &spec->ffn));
  return ValidateSpec(*spec);
}

Status ReadQwen3VlMoe(const ConfigJson& config, ModelSpec* spec) {
  spec->fused_gate_up = spec->experts_normalised = true;
  return ReadQwen3Moe(config, spec);
}

Status ReadOlmoe(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(config.ExpectNone("clip_qkv"));
  RETURN_IF_ERROR(config.Expect("attention_bias", false));
  RETURN_IF_ERROR(ReadQwenExperts(config, spec));
  RETURN_IF_ERROR(ReadBase(config, spec));
  spec->qk_norm = QkNorm::kRows;
  return ReadRotations(config, spec);
}

Status ReadGptOss(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadBase(config, spec));
  RETURN_IF_ERROR(config.Need("num_local_experts", &spec->experts));
  RETURN_IF_ERROR(config.Need("num_experts_per_tok", &spec->experts_used));
  double limit = 7, alpha = 1.702;
  RETURN_IF_ERROR(config.Optional("swiglu_limit", &limit));
  RETURN_IF_ERROR(config.Optional("swiglu_alpha", &alpha));
  if (limit != 7 || alpha != 1.702) {
    return InvalidArgument(
        fmt::format("config.json: 'swiglu_limit' {}, 'swiglu_alpha' {} are not supported", limit, alpha));
  }
  spec->experts_normalised = spec->fused_gate_up = spec->mlp_bias = spec->sinks = true;
  spec->qkv_bias = spec->attention_out_bias = true;
  spec->activation = Activation::kClampedSilu;
  RETURN_IF_ERROR(ReadWindows(config, EvenLayers, spec));
  return ReadRotations(config, spec);
}

// Norms scale by 1 + w, embeddings by sqrt(hidden).
Status ReadGemma(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadSizes(config, spec));
  RETURN_IF_ERROR(ReadBiases(config, spec));
  const bool newer = config.Has("hidden_activation");
  RETURN_IF_ERROR(ReadActivation(config, newer ? "hidden_activation" : "hidden_act", "gelu_pytorch_tanh", spec));
  // The first models' files have "gelu" but mean the tanh approximation.
  if (spec->activation == Activation::kGeluErf) spec->activation = Activation::kGeluTanh;
  RETURN_IF_ERROR(config.Expect("use_bidirectional_attention", false));
  spec->rope_pairs = RopePairs::kHalves;
  spec->norm_eps = 1e-6f;
  spec->norm_offset = 1;
  RETURN_IF_ERROR(config.Optional("rms_norm_eps", &spec->norm_eps));
  spec->tied_head = true;
  RETURN_IF_ERROR(config.Optional("tie_word_embeddings", &spec->tied_head));
  spec->embedding_scale = std::sqrt(static_cast<float>(spec->hidden));
  return Status::Ok();
}

Status ReadGemma1(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadGemma(config, spec));
  return ReadRotations(config, spec);
}

Status ReadGemmaWindows(const ConfigJson& config, ModelSpec* spec, RotationDefaults defaults) {
  RETURN_IF_ERROR(ReadGemma(config, spec));
  spec->norm_after = true;
  double scalar = 256;
  RETURN_IF_ERROR(config.Optional("query_pre_attn_scalar", &scalar));
  spec->query_scale = static_cast<float>(1 / std::sqrt(scalar));
  RETURN_IF_ERROR(config.Optional("attn_logit_softcapping", &spec->score_cap));
  RETURN_IF_ERROR(config.Optional("final_logit_softcapping", &spec->logit_cap));
  RETURN_IF_ERROR(ReadWindows(config, EvenLayers, spec));
  return ReadRotations(config, spec, PartialRotary::kIgnored, defaults);
}

Status ReadGemma2(const ConfigJson& config, ModelSpec* spec) { return ReadGemmaWindows(config, spec, {}); }

// The text_config of a published wrapper leaves out what equals the smallest model's.
Status ReadGemma3(const ConfigJson& config, ModelSpec* spec) {
  spec->heads = 8, spec->kv_heads = 4, spec->head_dim = 256;
  spec->vocab = 262208, spec->trained_context = 131072;
  spec->qk_norm = QkNorm::kHeads;
  int64_t pattern = 6;
  RETURN_IF_ERROR(config.Optional("sliding_window_pattern", &pattern));
  if (pattern != 6 && !config.Has("layer_types")) {
    return InvalidArgument(fmt::format("config.json: 'sliding_window_pattern' {} is not supported", pattern));
  }
  RETURN_IF_ERROR(ReadGemmaWindows(config, spec, {.base = 1e6, .local = 1e4}));
  if (config.Has("layer_types")) return Status::Ok();
  RETURN_IF_ERROR(ReadWindows(
      config, [](int64_t layer) { return layer % 6 != 5; }, spec));
  for (LayerTraits& layer : spec->layer_traits) layer.rotation = layer.window > 0 && spec->rotations.size() > 1 ? 1 : 0;
  return Status::Ok();
}

Status ReadPhi3(const ConfigJson& config, ModelSpec* spec) {
  spec->fused_qkv = spec->fused_gate_up = true;
  RETURN_IF_ERROR(ReadBase(config, spec));
  RETURN_IF_ERROR(ReadWindows(config, EveryLayer, spec));
  return ReadRotations(config, spec, PartialRotary::kRead);
}

Status ReadOlmo(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(config.ExpectNone("clip_qkv"));
  RETURN_IF_ERROR(config.Expect("attention_bias", false));
  RETURN_IF_ERROR(ReadBase(config, spec));
  spec->norm = NormKind::kLayer;
  spec->norm_eps = 1e-5f;
  spec->norm_weights = false;
  return ReadRotations(config, spec);
}

Status ReadOlmo2(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(config.Expect("attention_bias", false));
  RETURN_IF_ERROR(ReadBase(config, spec));
  spec->norm_before = false;
  spec->norm_after = true;
  spec->qk_norm = QkNorm::kRows;
  return ReadRotations(config, spec);
}

// If a file has one rope scaling for all, it applies only to layers without a window.
Status ReadOlmo3(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadOlmo2(config, spec));
  spec->rotations.clear();
  RETURN_IF_ERROR(ReadWindows(config, ThreeOfFour, spec));
  RETURN_IF_ERROR(ReadRotations(config, spec));
  if (spec->rotations.size() > 1 || !config.Has("rope_scaling")) return Status::Ok();
  RopeScaling plain;
  RETURN_IF_ERROR(config.Optional("rope_theta", &plain.base));
  ASSIGN_OR_RETURN(Rotation rotation, MakeRotation(plain, spec->rotary));
  spec->rotations.push_back(std::move(rotation));
  for (LayerTraits& layer : spec->layer_traits) layer.rotation = layer.window > 0 ? 1 : 0;
  return Status::Ok();
}

Status ReadGranite(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadGraniteBase(config, spec));
  return ReadRotations(config, spec);
}

Status ReadGraniteMoe(const ConfigJson& config, ModelSpec* spec) {
  spec->experts_normalised = spec->fused_gate_up = true;
  RETURN_IF_ERROR(config.Need("num_local_experts", &spec->experts));
  RETURN_IF_ERROR(config.Need("num_experts_per_tok", &spec->experts_used));
  return ReadGranite(config, spec);
}

Status ReadSmolLm3(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadBase(config, spec));
  RETURN_IF_ERROR(ReadBiases(config, spec));
  bool used = false;
  RETURN_IF_ERROR(config.Optional("use_sliding_window", &used));
  RETURN_IF_ERROR(ReadWindows(config, used ? EveryLayer : NoLayer, spec));
  RETURN_IF_ERROR(ReadRotations(config, spec));
  int64_t interval = 4;
  RETURN_IF_ERROR(config.Optional("no_rope_layer_interval", &interval));
  for (int64_t layer = 0; layer < spec->layers; ++layer) {
    int64_t rotated = interval > 0 && (layer + 1) % interval == 0 ? 0 : 1;
    RETURN_IF_ERROR(config.Optional(fmt::format("no_rope_layers.{}", layer), &rotated));
    if (rotated == 0) spec->layer_traits[static_cast<size_t>(layer)].rotation = -1;
  }
  return Status::Ok();
}

Status ReadStarcoder2(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadSizes(config, spec));
  RETURN_IF_ERROR(ReadActivation(config, "hidden_act", "gelu_pytorch_tanh", spec));
  spec->rope_pairs = RopePairs::kHalves;
  spec->norm = NormKind::kLayer;
  spec->norm_biases = true;
  RETURN_IF_ERROR(config.Optional("norm_epsilon", &spec->norm_eps));
  spec->gated = false;
  bool biases = true;
  RETURN_IF_ERROR(config.Optional("use_bias", &biases));
  spec->qkv_bias = spec->attention_out_bias = spec->mlp_bias = biases;
  RETURN_IF_ERROR(ReadWindows(config, EveryLayer, spec));
  return ReadRotations(config, spec);
}

Status ReadStableLm(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(config.Expect("qk_layernorm", false));
  RETURN_IF_ERROR(ReadBase(config, spec));
  spec->norm = NormKind::kLayer;
  spec->norm_biases = true;
  spec->norm_eps = 1e-5f;
  RETURN_IF_ERROR(config.Optional("layer_norm_eps", &spec->norm_eps));
  RETURN_IF_ERROR(config.Optional("use_qkv_bias", &spec->qkv_bias));
  RETURN_IF_ERROR(config.Optional("use_parallel_residual", &spec->parallel));
  spec->shared_norm = spec->parallel;
  return ReadRotations(config, spec, PartialRotary::kRead);
}

Status ReadCohere(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(config.Expect("use_qk_norm", false));
  RETURN_IF_ERROR(config.Expect("attention_bias", false));
  spec->tied_head = true;
  RETURN_IF_ERROR(ReadBase(config, spec));
  spec->norm = NormKind::kLayer;
  spec->norm_eps = 1e-5f;
  RETURN_IF_ERROR(config.Optional("layer_norm_eps", &spec->norm_eps));
  spec->parallel = spec->shared_norm = true;
  spec->rope_pairs = RopePairs::kAdjacent;
  spec->logit_scale = 0.0625f;
  RETURN_IF_ERROR(config.Optional("logit_scale", &spec->logit_scale));
  return ReadRotations(config, spec);
}

// Layers without a window are not rotated.
Status ReadCohere2(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadCohere(config, spec));
  RETURN_IF_ERROR(ReadWindows(config, ThreeOfFour, spec));
  for (LayerTraits& layer : spec->layer_traits) layer.rotation = layer.window > 0 ? 0 : -1;
  return Status::Ok();
}

/// Dense layers, if there are any, are the first ones: full attention, with rotations if each of them is full.
Status ReadCohereMoeLayers(const ConfigJson& config, ModelSpec* spec) {
  int64_t dense = 0, interval = 1;
  RETURN_IF_ERROR(config.Optional("prefix_dense_intermediate_size", &dense));
  RETURN_IF_ERROR(config.Optional("prefix_dense_sliding_window_pattern", &interval));
  for (int64_t layer = 0; layer < spec->layers; ++layer) {
    if (config.String(fmt::format("mlp_layer_types.{}", layer), "sparse") != "dense") continue;
    if (dense < 1) {
      return InvalidArgument(
          fmt::format("config.json: 'prefix_dense_intermediate_size' of layer {} is {}", layer, dense));
    }
    LayerTraits& traits = spec->layer_traits[static_cast<size_t>(layer)];
    traits.dense_ffn = dense;
    if (interval == 1) traits.rotation = 0;
  }
  return Status::Ok();
}

// The average of experts and shared experts is the sum of their halves.
Status ReadCohere2Moe(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadCohere2(config, spec));
  if (config.Has("rms_norm_eps")) {
    spec->norm = NormKind::kRms;
    RETURN_IF_ERROR(config.Optional("rms_norm_eps", &spec->norm_eps));
  }
  RETURN_IF_ERROR(config.Need("num_experts", &spec->experts));
  RETURN_IF_ERROR(config.Need("num_experts_per_tok", &spec->experts_used));
  spec->experts_normalised = true;
  spec->router.sigmoid = config.String("expert_selection_fn", "softmax") == "sigmoid";
  if (spec->router.sigmoid) RETURN_IF_ERROR(config.Optional("norm_topk_prob", &spec->experts_normalised));
  int64_t shared = 0;
  RETURN_IF_ERROR(config.Optional("num_shared_experts", &shared));
  if (shared < 0 || shared > 64 || spec->ffn < 1 || spec->ffn > 1 << 20) {
    return InvalidArgument(
        fmt::format("config.json: {} shared experts of width {} are not supported", shared, spec->ffn));
  }
  spec->common_ffn = shared * spec->ffn;
  RETURN_IF_ERROR(ReadCohereMoeLayers(config, spec));
  if (shared == 0 || config.String("shared_expert_combination_strategy", "average") != "average") {
    return ValidateSpec(*spec);
  }
  const auto is_dense = [](const LayerTraits& layer) { return layer.dense_ffn != 0; };
  if (std::ranges::any_of(spec->layer_traits, is_dense)) {
    return InvalidArgument("config.json: the average of shared experts is not supported with dense layers");
  }
  spec->router.scale = spec->factors.mlp = 0.5f;
  return ValidateSpec(*spec);
}

}  // namespace

Status ReadQwenExperts(const ConfigJson& config, ModelSpec* spec) {
  int64_t step = 1;
  RETURN_IF_ERROR(config.Optional("decoder_sparse_step", &step));
  if (step != 1 || config.Has("mlp_only_layers.0")) {
    return InvalidArgument("config.json: layers with and without experts are not supported");
  }
  RETURN_IF_ERROR(config.Need(config.Has("num_experts") ? "num_experts" : "num_local_experts", &spec->experts));
  RETURN_IF_ERROR(config.Need("num_experts_per_tok", &spec->experts_used));
  return config.Optional("norm_topk_prob", &spec->experts_normalised);
}

// Granite scales every residual branch by m. Dividing the whole stream by m is equivalent, because norms are
// scale-invariant once epsilon is divided by m^2.
Status ReadGraniteBase(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadBase(config, spec));
  RETURN_IF_ERROR(ReadBiases(config, spec));
  double embedding = 1, residual = 1, logits = 1;
  RETURN_IF_ERROR(config.Optional("embedding_multiplier", &embedding));
  RETURN_IF_ERROR(config.Optional("residual_multiplier", &residual));
  RETURN_IF_ERROR(config.Optional("logits_scaling", &logits));
  RETURN_IF_ERROR(config.Optional("attention_multiplier", &spec->query_scale));
  spec->embedding_scale = static_cast<float>(embedding / residual);
  spec->norm_eps = static_cast<float>(static_cast<double>(spec->norm_eps) / (residual * residual));
  spec->logit_scale = static_cast<float>(1 / logits);
  return Status::Ok();
}

Status ReadBase(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadSizes(config, spec));
  spec->rope_pairs = RopePairs::kHalves;
  spec->norm_eps = 1e-6f;
  RETURN_IF_ERROR(config.Optional("rms_norm_eps", &spec->norm_eps));
  return ReadActivation(config, "hidden_act", "silu", spec);
}

std::span<const HuggingFaceFamily> LlamaLikeFamilies() {
  static const HuggingFaceFamily kFamilies[] = {
      {"llama", ReadLlama, kPrefix, {kAttention, kOneNormEach, kMlp}},
      {"mistral", ReadMistral, kPrefix, {kAttention, kOneNormEach, kMlp}},
      {"ministral", ReadMistral, kPrefix, {kAttention, kOneNormEach, kMlp}},
      {"mixtral", ReadMixtral, kPrefix, {kAttention, kOneNormEach, kMixtralExperts}},
      {"qwen2", ReadQwen2, kPrefix, {kAttention, kOneNormEach, kMlp}},
      {"qwen2_vl_text", ReadQwen2, kPrefix, {kAttention, kOneNormEach, kMlp}},
      {"qwen2_5_vl_text", ReadQwen2, kPrefix, {kAttention, kOneNormEach, kMlp}},
      {"qwen2_moe", ReadQwen2Moe, kPrefix, {kAttention, kOneNormEach, kQwenExperts}},
      {"qwen3", ReadQwen3, kPrefix, {kAttention, kOneNormEach, kMlp}},
      {"qwen3_vl_text", ReadQwen3, kPrefix, {kAttention, kOneNormEach, kMlp}},
      {"qwen3_vl_moe_text", ReadQwen3VlMoe, kPrefix, {kAttention, kOneNormEach, kQwenVlExperts}},
      {"qwen3_moe", ReadQwen3Moe, kPrefix, {kAttention, kOneNormEach, kQwenExperts}},
      {"gemma", ReadGemma1, kPrefix, {kAttention, kOneNormEach, kMlp}},
      {"gemma2", ReadGemma2, kPrefix, {kAttention, kNormsAfter, kMlp}},
      {"gemma3_text", ReadGemma3, kPrefix, {kAttention, kNormsAfter, kMlp}},
      {"phi3", ReadPhi3, kPrefix, {kAttention, kOneNormEach, kMlp}},
      {"olmo", ReadOlmo, kPrefix, {kAttention, kOneNormEach, kMlp}},
      {"olmo2", ReadOlmo2, kPrefix, {kAttention, kNormsAfter, kMlp}},
      {"olmo3", ReadOlmo3, kPrefix, {kAttention, kNormsAfter, kMlp}},
      {"olmoe", ReadOlmoe, kPrefix, {kAttention, kOneNormEach, kQwenExperts}},
      {"granite", ReadGranite, kPrefix, {kAttention, kOneNormEach, kMlp}},
      {"granitemoe", ReadGraniteMoe, kPrefix, {kAttention, kOneNormEach, kGraniteExperts}},
      {"smollm3", ReadSmolLm3, kPrefix, {kAttention, kOneNormEach, kMlp}},
      {"starcoder2", ReadStarcoder2, kPrefix, {kAttention, kOneNormEach, kStarcoderMlp}},
      {"stablelm", ReadStableLm, kPrefix, {kAttention, kOneNormEach, kMlp}},
      {"cohere", ReadCohere, kPrefix, {kAttention, kOneNormEach, kMlp}},
      {"cohere2", ReadCohere2, kPrefix, {kAttention, kOneNormEach, kMlp}},
      {"cohere2_moe", ReadCohere2Moe, kPrefix, {kAttention, kOneNormEach, kMlp, kExpertsAndShared}},
      {"gpt_oss", ReadGptOss, kPrefix, {kAttention, kOneNormEach, kGptOssExperts}},
  };
  return kFamilies;
}

}  // namespace ringside
