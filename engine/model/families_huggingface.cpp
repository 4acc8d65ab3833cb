// Hyper-parameters and tensor names as the transformers library writes them to config.json and safetensors files.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "engine/model/families.h"

namespace ringside {
namespace {

constexpr TensorRule kLlamaRules[] = {
    {TensorRole::kEmbedding, "embed_tokens.weight"},
    {TensorRole::kHead, "lm_head.weight"},
    {TensorRole::kFinalNorm, "norm.weight"},
    {TensorRole::kAttentionNorm, "layers.{}.input_layernorm.weight"},
    {TensorRole::kQuery, "layers.{}.self_attn.q_proj.weight"},
    {TensorRole::kKey, "layers.{}.self_attn.k_proj.weight"},
    {TensorRole::kValue, "layers.{}.self_attn.v_proj.weight"},
    {TensorRole::kQueryBias, "layers.{}.self_attn.q_proj.bias"},
    {TensorRole::kKeyBias, "layers.{}.self_attn.k_proj.bias"},
    {TensorRole::kValueBias, "layers.{}.self_attn.v_proj.bias"},
    {TensorRole::kQueryNorm, "layers.{}.self_attn.q_norm.weight"},
    {TensorRole::kKeyNorm, "layers.{}.self_attn.k_norm.weight"},
    {TensorRole::kAttentionOut, "layers.{}.self_attn.o_proj.weight"},
    {TensorRole::kAttentionOutBias, "layers.{}.self_attn.o_proj.bias"},
    {TensorRole::kMlpNorm, "layers.{}.post_attention_layernorm.weight"},
    {TensorRole::kGate, "layers.{}.mlp.gate_proj.weight"},
    {TensorRole::kUp, "layers.{}.mlp.up_proj.weight"},
    {TensorRole::kDown, "layers.{}.mlp.down_proj.weight"},
    {TensorRole::kGateBias, "layers.{}.mlp.gate_proj.bias"},
    {TensorRole::kUpBias, "layers.{}.mlp.up_proj.bias"},
    {TensorRole::kDownBias, "layers.{}.mlp.down_proj.bias"},
};

// GPT-2's Conv1D keeps its weights [in, out].
constexpr TensorRule kGpt2Rules[] = {
    {TensorRole::kEmbedding, "wte.weight"},
    {TensorRole::kPositions, "wpe.weight"},
    {TensorRole::kHead, "lm_head.weight"},
    {TensorRole::kFinalNorm, "ln_f.weight"},
    {TensorRole::kFinalNormBias, "ln_f.bias"},
    {TensorRole::kAttentionNorm, "h.{}.ln_1.weight"},
    {TensorRole::kAttentionNormBias, "h.{}.ln_1.bias"},
    {TensorRole::kQkv, "h.{}.attn.c_attn.weight", true},
    {TensorRole::kQkvBias, "h.{}.attn.c_attn.bias"},
    {TensorRole::kAttentionOut, "h.{}.attn.c_proj.weight", true},
    {TensorRole::kAttentionOutBias, "h.{}.attn.c_proj.bias"},
    {TensorRole::kMlpNorm, "h.{}.ln_2.weight"},
    {TensorRole::kMlpNormBias, "h.{}.ln_2.bias"},
    {TensorRole::kUp, "h.{}.mlp.c_fc.weight", true},
    {TensorRole::kUpBias, "h.{}.mlp.c_fc.bias"},
    {TensorRole::kDown, "h.{}.mlp.c_proj.weight", true},
    {TensorRole::kDownBias, "h.{}.mlp.c_proj.bias"},
};

class Config {
 public:
  explicit Config(const FlatJson& json) : json_(json) {}

  const FlatJson& json() const { return json_; }
  // Null means absent throughout.
  bool Has(std::string_view key) const { return json_.Has(key); }
  Status Need(std::string_view key, int64_t* value) const {
    const auto found = json_.Int(key);
    if (!found) return InvalidArgument(fmt::format("config.json: '{}' is missing or no whole number", key));
    *value = *found;
    return Status::Ok();
  }
  Status Optional(std::string_view key, int64_t* value) const { return Has(key) ? Need(key, value) : Status::Ok(); }
  Status Optional(std::string_view key, double* value) const {
    if (!Has(key)) return Status::Ok();
    const auto found = json_.Float(key);
    if (!found) return InvalidArgument(fmt::format("config.json: '{}' is no number", key));
    *value = *found;
    return Status::Ok();
  }
  Status Optional(std::string_view key, bool* value) const {
    if (!Has(key)) return Status::Ok();
    const auto found = json_.Bool(key);
    if (!found) return InvalidArgument(fmt::format("config.json: '{}' is neither true nor false", key));
    *value = *found;
    return Status::Ok();
  }
  // Refuses any value but `expected`; absent counts as expected.
  Status Expect(std::string_view key, bool expected) const {
    bool value = expected;
    RETURN_IF_ERROR(Optional(key, &value));
    if (value == expected) return Status::Ok();
    return InvalidArgument(fmt::format("config.json: '{}' being {} is not supported", key, value));
  }

 private:
  const FlatJson& json_;
};

// The rotation's parameters: an object "rope_parameters" in new files, "rope_theta" and "rope_scaling" in older ones.
Status ReadRope(const Config& config, ModelSpec* spec) {
  const bool joint = config.Has("rope_parameters");
  const std::string in = joint ? "rope_parameters." : "rope_scaling.";
  RopeScaling scaling;
  RETURN_IF_ERROR(config.Optional("rope_theta", &scaling.base));
  RETURN_IF_ERROR(config.Optional(in + "rope_theta", &scaling.base));
  double partial = 1;
  RETURN_IF_ERROR(config.Optional("partial_rotary_factor", &partial));
  RETURN_IF_ERROR(config.Optional(in + "partial_rotary_factor", &partial));
  if (!(partial > 0 && partial <= 1)) {
    return InvalidArgument(fmt::format("config.json: 'partial_rotary_factor' is {}", partial));
  }
  const int64_t head_dim = std::clamp<int64_t>(spec->head_dim, 0, 1 << 20);  // ValidateSpec refuses the rest
  spec->rotary = static_cast<int64_t>(static_cast<double>(head_dim) * partial);
  RETURN_IF_ERROR(ValidateSpec(*spec));
  std::string type = "default";
  for (const char* key : {"rope_type", "type"}) {
    if (!config.Has(in + key)) continue;
    const auto text = config.json().String(in + key);
    if (!text) return InvalidArgument(fmt::format("config.json: '{}{}' is no text", in, key));
    type = *text;
    break;
  }
  if (type == "default" && !joint && config.Has("rope_scaling") && !config.Has("rope_scaling.rope_type") &&
      !config.Has("rope_scaling.type")) {
    return InvalidArgument("config.json: 'rope_scaling' has no 'rope_type'");
  }
  if (type == "default") return ApplyRopeScaling(scaling, spec);
  RETURN_IF_ERROR(config.Optional(in + "factor", &scaling.factor));
  scaling.original_context = static_cast<double>(spec->trained_context);
  RETURN_IF_ERROR(config.Optional("original_max_position_embeddings", &scaling.original_context));
  RETURN_IF_ERROR(config.Optional(in + "original_max_position_embeddings", &scaling.original_context));
  if (!config.Has(in + "factor")) {
    if (type != "yarn") return InvalidArgument(fmt::format("config.json: '{}factor' is missing", in));
    scaling.factor = static_cast<double>(spec->trained_context) / scaling.original_context;
  }
  if (type == "linear") {
    scaling.kind = RopeScaling::Kind::kLinear;
  } else if (type == "llama3") {
    scaling.kind = RopeScaling::Kind::kLlama3;
    RETURN_IF_ERROR(config.Optional(in + "low_freq_factor", &scaling.low_freq_factor));
    RETURN_IF_ERROR(config.Optional(in + "high_freq_factor", &scaling.high_freq_factor));
  } else if (type == "yarn") {
    scaling.kind = RopeScaling::Kind::kYarn;
    RETURN_IF_ERROR(config.Optional(in + "beta_fast", &scaling.beta_fast));
    RETURN_IF_ERROR(config.Optional(in + "beta_slow", &scaling.beta_slow));
    RETURN_IF_ERROR(config.Optional(in + "attention_factor", &scaling.magnitude));
    RETURN_IF_ERROR(config.Optional(in + "truncate", &scaling.truncate));
    if (config.Has(in + "mscale") || config.Has(in + "mscale_all_dim")) {
      return InvalidArgument(fmt::format("config.json: '{}mscale' is not supported", in));
    }
  } else {
    return InvalidArgument(fmt::format("rope scaling '{}' is not supported", type));
  }
  return ApplyRopeScaling(scaling, spec);
}

// Full attention everywhere or one window everywhere; a mix of both is another network.
Status ReadSlidingWindow(const Config& config, ModelSpec* spec) {
  RETURN_IF_ERROR(config.Optional("sliding_window", &spec->sliding_window));
  if (config.Has("use_sliding_window") || spec->architecture != "mistral") {
    bool used = false;
    RETURN_IF_ERROR(config.Optional("use_sliding_window", &used));
    int64_t full_layers = 0;
    if (used) RETURN_IF_ERROR(config.Optional("max_window_layers", &full_layers));
    if (!used || full_layers >= spec->layers)
      spec->sliding_window = 0;
    else if (full_layers > 0)
      return InvalidArgument("config.json: layers with and without a window are not supported");
  }
  for (int64_t layer = 0; layer < spec->layers && config.Has("layer_types"); ++layer) {
    const auto type = config.json().String(fmt::format("layer_types.{}", layer));
    if (type != (spec->sliding_window > 0 ? "sliding_attention" : "full_attention")) {
      return InvalidArgument(fmt::format("config.json: 'layer_types' of layer {} is '{}', which is not supported",
                                         layer, type.value_or("")));
    }
  }
  return Status::Ok();
}

Status ReadHeadDim(const Config& config, ModelSpec* spec) {
  if (config.Has("head_dim")) return config.Need("head_dim", &spec->head_dim);
  if (spec->heads < 1 || spec->hidden % spec->heads != 0) {
    return InvalidArgument(
        fmt::format("the model's hidden size {} is no multiple of its {} heads", spec->hidden, spec->heads));
  }
  spec->head_dim = spec->hidden / spec->heads;
  return Status::Ok();
}

Status ReadLlama(const Config& config, ModelSpec* spec) {
  RETURN_IF_ERROR(config.Need("num_hidden_layers", &spec->layers));
  RETURN_IF_ERROR(config.Need("hidden_size", &spec->hidden));
  RETURN_IF_ERROR(config.Need("num_attention_heads", &spec->heads));
  RETURN_IF_ERROR(config.Need("intermediate_size", &spec->ffn));
  RETURN_IF_ERROR(config.Need("vocab_size", &spec->vocab));
  RETURN_IF_ERROR(config.Need("max_position_embeddings", &spec->trained_context));
  spec->kv_heads = spec->heads;
  RETURN_IF_ERROR(config.Optional("num_key_value_heads", &spec->kv_heads));
  RETURN_IF_ERROR(ReadHeadDim(config, spec));
  double epsilon = 0;
  RETURN_IF_ERROR(config.Optional("rms_norm_eps", &epsilon));
  spec->norm_eps = static_cast<float>(epsilon);
  if (const auto act = config.json().String("hidden_act"); act != "silu") {
    return InvalidArgument(fmt::format("config.json: 'hidden_act' '{}' is not supported", act.value_or("")));
  }
  RETURN_IF_ERROR(config.Optional("tie_word_embeddings", &spec->tied_head));
  if (spec->architecture == "qwen2")
    spec->qkv_bias = true;
  else if (spec->architecture != "mistral")
    RETURN_IF_ERROR(config.Optional("attention_bias", &spec->qkv_bias));
  if (spec->architecture == "llama" || spec->architecture == "qwen3") spec->attention_out_bias = spec->qkv_bias;
  if (spec->architecture == "llama") RETURN_IF_ERROR(config.Optional("mlp_bias", &spec->mlp_bias));
  spec->qk_norm = spec->architecture == "qwen3";
  spec->rope_pairs = RopePairs::kHalves;
  RETURN_IF_ERROR(ReadSlidingWindow(config, spec));
  return ReadRope(config, spec);
}

Status ReadGpt2(const Config& config, ModelSpec* spec) {
  RETURN_IF_ERROR(config.Need("n_layer", &spec->layers));
  RETURN_IF_ERROR(config.Need("n_embd", &spec->hidden));
  RETURN_IF_ERROR(config.Need("n_head", &spec->heads));
  RETURN_IF_ERROR(config.Need("vocab_size", &spec->vocab));
  RETURN_IF_ERROR(config.Need("n_positions", &spec->trained_context));
  spec->kv_heads = spec->heads;
  RETURN_IF_ERROR(ReadHeadDim(config, spec));
  spec->norm = NormKind::kLayer;
  spec->learned_positions = spec->fused_qkv = true;
  spec->qkv_bias = spec->attention_out_bias = spec->mlp_bias = spec->tied_head = true;
  RETURN_IF_ERROR(config.Optional("tie_word_embeddings", &spec->tied_head));
  double epsilon = 1e-5;
  RETURN_IF_ERROR(config.Optional("layer_norm_epsilon", &epsilon));
  spec->norm_eps = static_cast<float>(epsilon);
  const std::string act = config.json().String("activation_function").value_or("gelu_new");
  if (act == "gelu_new" || act == "gelu_pytorch_tanh")
    spec->mlp = MlpKind::kGeluTanh;
  else if (act == "gelu")
    spec->mlp = MlpKind::kGeluErf;
  else
    return InvalidArgument(fmt::format("config.json: 'activation_function' '{}' is not supported", act));
  RETURN_IF_ERROR(config.Expect("scale_attn_weights", true));
  RETURN_IF_ERROR(config.Expect("scale_attn_by_inverse_layer_idx", false));
  RETURN_IF_ERROR(config.Expect("add_cross_attention", false));
  if (spec->hidden > 0 && spec->hidden <= (1 << 17)) spec->ffn = 4 * spec->hidden;
  RETURN_IF_ERROR(config.Optional("n_inner", &spec->ffn));
  return ValidateSpec(*spec);
}

}  // namespace

Status CheckArchitecture(const FlatJson& config) {
  const auto type = config.String("model_type");
  if (!type) return InvalidArgument("config.json: 'model_type' is missing");
  constexpr std::string_view kKnown[] = {"gpt2", "llama", "mistral", "qwen2", "qwen3"};
  const bool known = std::find(std::begin(kKnown), std::end(kKnown), *type) != std::end(kKnown);
  return known ? Status::Ok() : UnsupportedArchitecture(*type);
}

Result<NetworkPlan> PlanHuggingFace(const FlatJson& json, std::span<const std::string_view> tensor_names,
                                    const std::string& folder) {
  const Config config(json);
  NetworkPlan plan;
  ModelSpec& spec = plan.spec;
  std::filesystem::path path = std::filesystem::path(folder).lexically_normal();
  spec.name = (path.has_filename() ? path : path.parent_path()).filename().string();
  RETURN_IF_ERROR(CheckArchitecture(json));
  const auto type = json.String("model_type");
  spec.architecture = *type;
  if (config.Has("quantization_config")) return InvalidArgument("config.json: 'quantization_config' is not supported");
  const bool gpt2 = *type == "gpt2";
  if (gpt2) {
    RETURN_IF_ERROR(ReadGpt2(config, &spec));
  } else {
    RETURN_IF_ERROR(ReadLlama(config, &spec));
  }
  std::string_view prefix = gpt2 ? "transformer." : "model.";
  const std::string_view unprefixed = gpt2 ? "wte.weight" : "embed_tokens.weight";
  if (std::find(tensor_names.begin(), tensor_names.end(), unprefixed) != tensor_names.end()) prefix = "";
  if (gpt2)
    PlanTensors(kGpt2Rules, prefix, &plan);
  else
    PlanTensors(kLlamaRules, prefix, &plan);
  // Old files carry buffers that are computed, not learned, and a copy of a tied head.
  if (spec.tied_head) plan.ignored.emplace_back("lm_head.weight");
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    if (gpt2) {
      plan.ignored.push_back(fmt::format("{}h.{}.attn.bias", prefix, layer));
      plan.ignored.push_back(fmt::format("{}h.{}.attn.masked_bias", prefix, layer));
    } else {
      plan.ignored.push_back(fmt::format("{}layers.{}.self_attn.rotary_emb.inv_freq", prefix, layer));
    }
  }
  if (!gpt2) plan.ignored.push_back(fmt::format("{}rotary_emb.inv_freq", prefix));
  return plan;
}

}  // namespace ringside
