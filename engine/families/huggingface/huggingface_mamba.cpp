// Families with Mamba-2 layers next to attention, or next to it in each layer.
#include <fmt/format.h>

#include <cmath>

#include "engine/families/huggingface/llama_names.h"
#include "engine/families/rope_scaling.h"

namespace ringside {
namespace {

// Granite 4. A mixture's shared expert, or the MLP if there are no experts, joins gate and up.
constexpr TensorRule kGraniteMamba[] = {
    {TensorRole::kRecurrentIn, "layers.{}.mamba.in_proj.weight"},
    {TensorRole::kRecurrentInBias, "layers.{}.mamba.in_proj.bias"},
    {TensorRole::kConvolution, "layers.{}.mamba.conv1d.weight"},
    {TensorRole::kConvolutionBias, "layers.{}.mamba.conv1d.bias"},
    {TensorRole::kRateBias, "layers.{}.mamba.dt_bias"},
    {TensorRole::kRate, "layers.{}.mamba.A_log"},
    {TensorRole::kSkip, "layers.{}.mamba.D"},
    {TensorRole::kRecurrentNorm, "layers.{}.mamba.norm.weight"},
    {TensorRole::kRecurrentOut, "layers.{}.mamba.out_proj.weight"},
    {TensorRole::kRecurrentOutBias, "layers.{}.mamba.out_proj.bias"},
    {TensorRole::kGateUp, "layers.{}.shared_mlp.input_linear.weight"},
    {TensorRole::kDown, "layers.{}.shared_mlp.output_linear.weight"},
    {TensorRole::kCommonGateUp, "layers.{}.shared_mlp.input_linear.weight"},
    {TensorRole::kCommonDown, "layers.{}.shared_mlp.output_linear.weight"},
};
constexpr TensorRule kNemotron[] = {
    {TensorRole::kEmbedding, "embeddings.weight"},
    {TensorRole::kHead, "lm_head.weight"},
    {TensorRole::kFinalNorm, "norm_f.weight"},
    {TensorRole::kAttentionNorm, "layers.{}.norm.weight"},
    {TensorRole::kQuery, "layers.{}.mixer.q_proj.weight"},
    {TensorRole::kKey, "layers.{}.mixer.k_proj.weight"},
    {TensorRole::kValue, "layers.{}.mixer.v_proj.weight"},
    {TensorRole::kQueryBias, "layers.{}.mixer.q_proj.bias"},
    {TensorRole::kKeyBias, "layers.{}.mixer.k_proj.bias"},
    {TensorRole::kValueBias, "layers.{}.mixer.v_proj.bias"},
    {TensorRole::kAttentionOut, "layers.{}.mixer.o_proj.weight"},
    {TensorRole::kAttentionOutBias, "layers.{}.mixer.o_proj.bias"},
    {TensorRole::kRecurrentIn, "layers.{}.mixer.in_proj.weight"},
    {TensorRole::kRecurrentInBias, "layers.{}.mixer.in_proj.bias"},
    {TensorRole::kConvolution, "layers.{}.mixer.conv1d.weight"},
    {TensorRole::kConvolutionBias, "layers.{}.mixer.conv1d.bias"},
    {TensorRole::kRateBias, "layers.{}.mixer.dt_bias"},
    {TensorRole::kRate, "layers.{}.mixer.A_log"},
    {TensorRole::kSkip, "layers.{}.mixer.D"},
    {TensorRole::kRecurrentNorm, "layers.{}.mixer.norm.weight"},
    {TensorRole::kRecurrentOut, "layers.{}.mixer.out_proj.weight"},
    {TensorRole::kRecurrentOutBias, "layers.{}.mixer.out_proj.bias"},
    {TensorRole::kMlpNorm, "layers.{}.norm.weight"},
    {TensorRole::kUp, "layers.{}.mixer.up_proj.weight"},
    {TensorRole::kUpBias, "layers.{}.mixer.up_proj.bias"},
    {TensorRole::kDown, "layers.{}.mixer.down_proj.weight"},
    {TensorRole::kDownBias, "layers.{}.mixer.down_proj.bias"},
    {TensorRole::kCommonUp, "layers.{}.mixer.shared_experts.up_proj.weight"},
    {TensorRole::kCommonDown, "layers.{}.mixer.shared_experts.down_proj.weight"},
    {TensorRole::kRouter, "layers.{}.mixer.gate.weight"},
    {TensorRole::kRouterCorrection, "layers.{}.mixer.gate.e_score_correction_bias"},
    {TensorRole::kExpertUp, "layers.{}.mixer.experts.{e}.up_proj.weight"},
    {TensorRole::kExpertDown, "layers.{}.mixer.experts.{e}.down_proj.weight"},
    {TensorRole::kExpertsIn, "layers.{}.mixer.fc1_latent_proj.weight"},
    {TensorRole::kExpertsOut, "layers.{}.mixer.fc2_latent_proj.weight"},
};
constexpr TensorRule kFalconH1[] = {
    {TensorRole::kFinalNorm, "final_layernorm.weight"},
    {TensorRole::kMlpNorm, "layers.{}.pre_ff_layernorm.weight"},
    {TensorRole::kGate, "layers.{}.feed_forward.gate_proj.weight"},
    {TensorRole::kUp, "layers.{}.feed_forward.up_proj.weight"},
    {TensorRole::kDown, "layers.{}.feed_forward.down_proj.weight"},
};

constexpr MixerName kMambaMixers[] = {{"mamba", Mixer::kMamba2},
                                      {"linear_attention", Mixer::kMamba2},
                                      {"attention", Mixer::kAttention},
                                      {"full_attention", Mixer::kAttention}};

/// Rejects limits of the steps: networks are trained without any.
Status ExpectNoLimit(const ConfigJson& config) {
  double least = 0, most = 0;
  RETURN_IF_ERROR(config.Optional("time_step_limit.0", &least));
  if (!config.Has("time_step_limit.1.__float__")) RETURN_IF_ERROR(config.Optional("time_step_limit.1", &most));
  if (least == 0 && most == 0) return Status::Ok();
  return InvalidArgument(fmt::format("config.json: 'time_step_limit' from {} to {} is not supported", least, most));
}

/// Sizes and convolution of Mamba-2, by keys that begin with "mamba_".
Status ReadMambaSizes(const ConfigJson& config, ModelSpec* spec) {
  RecurrenceShape& sizes = spec->recurrence;
  sizes = {.mixer = Mixer::kMamba2, .key_heads = 1, .value_heads = 128, .key_size = 256, .kernel = 4};
  RETURN_IF_ERROR(config.Optional("mamba_n_groups", &sizes.key_heads));
  RETURN_IF_ERROR(config.Optional("mamba_n_heads", &sizes.value_heads));
  RETURN_IF_ERROR(config.Optional("mamba_d_state", &sizes.key_size));
  RETURN_IF_ERROR(config.Optional("mamba_d_conv", &sizes.kernel));
  if (config.String("mamba_d_head", "") != "auto") {
    RETURN_IF_ERROR(config.Need("mamba_d_head", &sizes.value_size));
  } else {
    int64_t expand = 2;
    RETURN_IF_ERROR(config.Optional("mamba_expand", &expand));
    if (sizes.value_heads < 1 || expand < 1 || expand > 64 || spec->hidden > 1 << 20) {
      return InvalidArgument(fmt::format("config.json: 'mamba_n_heads' {}, 'mamba_expand' {} are not supported",
                                         sizes.value_heads, expand));
    }
    int64_t values = expand * spec->hidden;
    RETURN_IF_ERROR(config.Optional("mamba_d_ssm", &values));
    sizes.value_size = values / sizes.value_heads;
  }
  spec->convolution_bias = true;
  RETURN_IF_ERROR(config.Optional("mamba_conv_bias", &spec->convolution_bias));
  return ExpectNoLimit(config);
}

Status ReadGraniteHybrid(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadGraniteBase(config, spec));
  RETURN_IF_ERROR(config.Need("num_local_experts", &spec->experts));
  int64_t shared = 1024;
  RETURN_IF_ERROR(config.Optional("shared_intermediate_size", &shared));
  spec->fused_gate_up = spec->fused_common = spec->experts_normalised = true;
  if (spec->experts > 0) {
    RETURN_IF_ERROR(config.Need("num_experts_per_tok", &spec->experts_used));
    spec->common_ffn = shared;
  } else {
    spec->ffn = shared;
  }
  RETURN_IF_ERROR(MakeLayerTraits(spec));
  for (LayerTraits& layer : spec->layer_traits) layer.mixer = Mixer::kMamba2;
  RETURN_IF_ERROR(ReadMixers(config, "layer_types", kMambaMixers, spec));
  RETURN_IF_ERROR(ReadMambaSizes(config, spec));
  RETURN_IF_ERROR(config.Optional("mamba_proj_bias", &spec->recurrent_bias));
  spec->recurrent_groups = spec->recurrence.key_heads;
  RETURN_IF_ERROR(config.Optional("rms_norm_eps", &spec->recurrent_norm_eps));
  const std::string positions = config.String("position_embedding_type", "nope");
  if (positions == "rope") return ReadRotations(config, spec);
  if (positions != "nope") {
    return InvalidArgument(fmt::format("config.json: 'position_embedding_type' '{}' is not supported", positions));
  }
  spec->rope_pairs = RopePairs::kNone;
  return ValidateSpec(*spec);
}

/// A layer is either a mixer, an MLP or a mixture. `kind`: M, *, - or E, or its name.
Status SetNemotronLayer(std::string_view kind, LayerTraits* layer, bool* mixture) {
  *mixture = kind == "E" || kind == "moe";
  layer->has_mlp = *mixture || kind == "-" || kind == "mlp";
  if (layer->has_mlp) {
    layer->mixer = Mixer::kNone;
  } else if (kind == "M" || kind == "mamba" || kind == "linear_attention") {
    layer->mixer = Mixer::kMamba2;
  } else if (kind != "*" && kind != "attention" && kind != "full_attention") {
    return InvalidArgument(fmt::format("config.json: a layer of type '{}' is not supported", kind));
  }
  return Status::Ok();
}

/// From "layers_block_type", or the letters of "hybrid_override_pattern".
Status ReadNemotronLayers(const ConfigJson& config, ModelSpec* spec) {
  const std::string pattern = config.String("hybrid_override_pattern", "");
  const auto kind_of = [&](int64_t layer) {
    if (!pattern.empty()) return pattern.substr(std::min(static_cast<size_t>(layer), pattern.size()), 1);
    return config.String(fmt::format("layers_block_type.{}", layer), "");
  };
  int64_t layers = 0;
  while (layers <= 1024 && !kind_of(layers).empty()) ++layers;
  spec->layers = layers;
  RETURN_IF_ERROR(config.Optional("num_hidden_layers", &spec->layers));
  if (spec->layers != layers) {
    return InvalidArgument(
        fmt::format("config.json: the types of {} layers are given, the model has {}", layers, spec->layers));
  }
  RETURN_IF_ERROR(MakeLayerTraits(spec));
  int64_t dense = 0;
  RETURN_IF_ERROR(config.Optional("intermediate_size", &dense));
  if (dense < 0 || dense > 1 << 20) {
    return InvalidArgument(fmt::format("config.json: 'intermediate_size' {} is not supported", dense));
  }
  bool mixtures = false;
  for (int64_t layer = 0; layer < layers; ++layer) {
    bool mixture = false;
    LayerTraits& traits = spec->layer_traits[static_cast<size_t>(layer)];
    RETURN_IF_ERROR(SetNemotronLayer(kind_of(layer), &traits, &mixture));
    if (traits.has_mlp && !mixture) {
      if (dense == 0) return InvalidArgument("config.json: 'intermediate_size' is missing or 0");
      traits.dense_ffn = dense;
    }
    mixtures = mixtures || mixture;
  }
  if (!mixtures) return Status::Ok();
  RETURN_IF_ERROR(config.Need("n_routed_experts", &spec->experts));
  RETURN_IF_ERROR(config.Need("num_experts_per_tok", &spec->experts_used));
  RETURN_IF_ERROR(config.Optional("routed_scaling_factor", &spec->router.scale));
  RETURN_IF_ERROR(ReadCorrectedRouter(config, spec));
  RETURN_IF_ERROR(config.Optional("moe_latent_size", &spec->expert_inputs));
  return config.Need("moe_shared_expert_intermediate_size", &spec->common_ffn);
}

Status ReadNemotronH(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(config.ExpectNone("sliding_window"));
  RETURN_IF_ERROR(ReadNemotronLayers(config, spec));
  RETURN_IF_ERROR(ReadSizes(config, spec));
  if (spec->experts > 0) RETURN_IF_ERROR(config.Need("moe_intermediate_size", &spec->ffn));
  RETURN_IF_ERROR(ReadActivation(config, "mlp_hidden_act", "relu2", spec));
  spec->gated = false;
  RETURN_IF_ERROR(config.Optional("layer_norm_epsilon", &spec->norm_eps));
  spec->recurrent_norm_eps = spec->norm_eps;
  RETURN_IF_ERROR(config.Optional("attention_bias", &spec->qkv_bias));
  spec->attention_out_bias = spec->qkv_bias;
  RETURN_IF_ERROR(config.Optional("mlp_bias", &spec->mlp_bias));
  if (spec->experts > 0) RETURN_IF_ERROR(config.Expect("mlp_bias", false));
  RecurrenceShape& sizes = spec->recurrence;
  sizes = {.mixer = Mixer::kMamba2, .key_heads = 8, .value_heads = 128, .key_size = 128, .value_size = 64, .kernel = 4};
  RETURN_IF_ERROR(config.Optional("n_groups", &sizes.key_heads));
  RETURN_IF_ERROR(config.Optional("mamba_num_heads", &sizes.value_heads));
  RETURN_IF_ERROR(config.Optional("ssm_state_size", &sizes.key_size));
  RETURN_IF_ERROR(config.Optional("mamba_head_dim", &sizes.value_size));
  RETURN_IF_ERROR(config.Optional("conv_kernel", &sizes.kernel));
  spec->convolution_bias = true;
  RETURN_IF_ERROR(config.Optional("use_conv_bias", &spec->convolution_bias));
  RETURN_IF_ERROR(config.Optional("use_bias", &spec->recurrent_bias));
  RETURN_IF_ERROR(ExpectNoLimit(config));
  spec->recurrent_groups = sizes.key_heads;
  return ValidateSpec(*spec);
}

/// Constant factors of parts of a layer. Those of attention's input and of keys are factors of the scores.
Status ReadFalconFactors(const ConfigJson& config, ModelSpec* spec) {
  float inputs = 1, keys = 1, recurrent_inputs = 1;
  LayerFactors& factors = spec->factors;
  RETURN_IF_ERROR(config.Optional("embedding_multiplier", &spec->embedding_scale));
  RETURN_IF_ERROR(config.Optional("lm_head_multiplier", &spec->logit_scale));
  RETURN_IF_ERROR(config.Optional("attention_in_multiplier", &inputs));
  RETURN_IF_ERROR(config.Optional("key_multiplier", &keys));
  RETURN_IF_ERROR(config.Optional("attention_out_multiplier", &factors.attended));
  RETURN_IF_ERROR(config.Optional("ssm_in_multiplier", &recurrent_inputs));
  RETURN_IF_ERROR(config.Optional("ssm_out_multiplier", &factors.recurrent));
  RETURN_IF_ERROR(config.Optional("mlp_multipliers.0", &factors.gate));
  RETURN_IF_ERROR(config.Optional("mlp_multipliers.1", &factors.mlp));
  for (size_t i = 0; i < factors.recurrent_inputs.size(); ++i) {
    RETURN_IF_ERROR(config.Optional(fmt::format("ssm_multipliers.{}", i), &factors.recurrent_inputs[i]));
    factors.recurrent_inputs[i] *= recurrent_inputs;
  }
  factors.attended *= inputs;
  RETURN_IF_ERROR(CheckPositive("factor of attention's input", inputs));
  spec->query_scale = inputs * inputs * keys / std::sqrt(static_cast<float>(std::max<int64_t>(spec->head_dim, 1)));
  return Status::Ok();
}

// Attention and Mamba-2 in each layer, with the same input.
Status ReadFalconH1(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadBase(config, spec));
  for (const char* bias : {"attention_bias", "mlp_bias", "mamba_proj_bias", "projectors_bias"}) {
    RETURN_IF_ERROR(config.Expect(bias, false));
  }
  RETURN_IF_ERROR(ReadMambaSizes(config, spec));
  RETURN_IF_ERROR(MakeLayerTraits(spec));
  for (LayerTraits& layer : spec->layer_traits) layer.mixer = Mixer::kMamba2, layer.attends = true;
  bool normed = false, before_gate = true;
  RETURN_IF_ERROR(config.Optional("mamba_rms_norm", &normed));
  RETURN_IF_ERROR(config.Optional("mamba_norm_before_gate", &before_gate));
  if (normed && before_gate) return InvalidArgument("config.json: 'mamba_norm_before_gate' is not supported");
  spec->recurrent_groups = normed ? spec->recurrence.key_heads : 0;
  spec->recurrent_norm_eps = spec->norm_eps;
  RETURN_IF_ERROR(ReadFalconFactors(config, spec));
  return ReadRotations(config, spec);
}

}  // namespace

std::span<const HuggingFaceFamily> MambaFamilies() {
  static const HuggingFaceFamily kFamilies[] = {
      {"falcon_h1", ReadFalconH1, kPrefix, {kAttention, kGraniteMamba, kFalconH1}},
      {"granitemoehybrid", ReadGraniteHybrid, kPrefix, {kAttention, kOneNormEach, kGraniteMamba, kGraniteExperts}},
      {"nemotron_h", ReadNemotronH, "backbone.", {kNemotron}},
  };
  return kFamilies;
}

}  // namespace ringside
