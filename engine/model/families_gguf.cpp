// Hyper-parameters and tensor names as llama.cpp's converters write them to GGUF files.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "engine/model/families.h"

namespace ringside {
namespace {

constexpr TensorRule kRules[] = {
    {TensorRole::kEmbedding, "token_embd.weight"},
    {TensorRole::kPositions, "position_embd.weight"},
    {TensorRole::kHead, "output.weight"},
    {TensorRole::kFinalNorm, "output_norm.weight"},
    {TensorRole::kFinalNormBias, "output_norm.bias"},
    {TensorRole::kAttentionNorm, "blk.{}.attn_norm.weight"},
    {TensorRole::kAttentionNormBias, "blk.{}.attn_norm.bias"},
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
    {TensorRole::kAttentionOut, "blk.{}.attn_output.weight"},
    {TensorRole::kAttentionOutBias, "blk.{}.attn_output.bias"},
    {TensorRole::kMlpNorm, "blk.{}.ffn_norm.weight"},
    {TensorRole::kMlpNormBias, "blk.{}.ffn_norm.bias"},
    {TensorRole::kGate, "blk.{}.ffn_gate.weight"},
    {TensorRole::kUp, "blk.{}.ffn_up.weight"},
    {TensorRole::kDown, "blk.{}.ffn_down.weight"},
    {TensorRole::kGateBias, "blk.{}.ffn_gate.bias"},
    {TensorRole::kUpBias, "blk.{}.ffn_up.bias"},
    {TensorRole::kDownBias, "blk.{}.ffn_down.bias"},
};
constexpr std::string_view kRopeFactors = "rope_freqs.weight";

const FileTensor* FindTensor(const GgufFile& file, std::string_view name) {
  const auto& tensors = file.tensors();
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

// Keys of the file's own architecture.
class Keys {
 public:
  Keys(const GgufFile& file, std::string architecture) : file_(file), architecture_(std::move(architecture)) {}

  std::string Name(std::string_view key) const { return fmt::format("{}.{}", architecture_, key); }
  bool Has(std::string_view key) const { return file_.Find(Name(key)) != nullptr; }
  std::optional<std::string> String(std::string_view key) const { return file_.String(Name(key)); }
  Status Need(std::string_view key, int64_t* value) const {
    const auto found = file_.Int(Name(key));
    if (!found) return InvalidArgument(fmt::format("the file's '{}' is missing or no whole number", Name(key)));
    *value = *found;
    return Status::Ok();
  }
  Status Optional(std::string_view key, int64_t* value) const { return Has(key) ? Need(key, value) : Status::Ok(); }
  Status Optional(std::string_view key, double* value) const {
    if (!Has(key)) return Status::Ok();
    const auto found = file_.Float(Name(key));
    if (!found) return InvalidArgument(fmt::format("the file's '{}' is no number", Name(key)));
    *value = *found;
    return Status::Ok();
  }

 private:
  const GgufFile& file_;
  std::string architecture_;
};

Status ReadSizes(const GgufFile& file, const Keys& keys, ModelSpec* spec) {
  RETURN_IF_ERROR(keys.Need("block_count", &spec->layers));
  RETURN_IF_ERROR(keys.Need("embedding_length", &spec->hidden));
  RETURN_IF_ERROR(keys.Need("attention.head_count", &spec->heads));
  RETURN_IF_ERROR(keys.Need("feed_forward_length", &spec->ffn));
  RETURN_IF_ERROR(keys.Need("context_length", &spec->trained_context));
  spec->kv_heads = spec->heads;
  RETURN_IF_ERROR(keys.Optional("attention.head_count_kv", &spec->kv_heads));
  if (spec->heads < 1) return InvalidArgument(fmt::format("the model's number of heads is {}", spec->heads));
  spec->head_dim = spec->hidden / spec->heads;
  if (!keys.Has("attention.key_length") && spec->hidden % spec->heads != 0) {
    return InvalidArgument(
        fmt::format("the model's hidden size {} is no multiple of its {} heads", spec->hidden, spec->heads));
  }
  RETURN_IF_ERROR(keys.Optional("attention.key_length", &spec->head_dim));
  int64_t value_length = spec->head_dim;
  RETURN_IF_ERROR(keys.Optional("attention.value_length", &value_length));
  if (value_length != spec->head_dim) {
    return InvalidArgument(
        fmt::format("the model's keys of {} and values of {} differ in size", spec->head_dim, value_length));
  }
  RETURN_IF_ERROR(keys.Optional("attention.sliding_window", &spec->sliding_window));
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

// Things other models of these architectures may ask for and we do not do.
Status RefuseFeatures(const GgufFile& file, const Keys& keys) {
  for (const std::string_view key : {"expert_count", "attention.scale", "logit_scale", "residual_scale",
                                     "embedding_scale", "attention.max_alibi_bias", "attention.clamp_kqv"}) {
    double value = 0;
    RETURN_IF_ERROR(keys.Optional(key, &value));
    if (value != 0)
      return InvalidArgument(fmt::format("the file's '{}' is {}, which is not supported", keys.Name(key), value));
  }
  if (file.Int("split.count").value_or(1) > 1) {
    return InvalidArgument("the file is one part of a split model; merge the parts first");
  }
  return Status::Ok();
}

Status ReadRope(const GgufFile& file, const Keys& keys, ModelSpec* spec) {
  RopeScaling scaling;
  spec->rotary = spec->head_dim;
  RETURN_IF_ERROR(keys.Optional("rope.dimension_count", &spec->rotary));
  RETURN_IF_ERROR(ValidateSpec(*spec));
  RETURN_IF_ERROR(keys.Optional("rope.freq_base", &scaling.base));
  RETURN_IF_ERROR(keys.Optional("rope.scale_linear", &scaling.factor));  // the older spelling
  const bool scaled = keys.Has("rope.scale_linear") && scaling.factor != 1;
  RETURN_IF_ERROR(keys.Optional("rope.scaling.factor", &scaling.factor));
  if (keys.Has("rope.scaling.type") && !keys.String("rope.scaling.type")) {
    return InvalidArgument(fmt::format("the file's '{}' is no text", keys.Name("rope.scaling.type")));
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
  } else if (type != "none") {
    return InvalidArgument(fmt::format("rope scaling '{}' is not supported", type));
  }
  if (const FileTensor* factors = FindTensor(file, kRopeFactors)) {
    if (scaling.kind != RopeScaling::Kind::kNone || factors->data.dtype != DType::kF32 || factors->shape.size() != 1) {
      return InvalidArgument(
          fmt::format("tensor '{}' is no float32 vector or does not go with rope scaling '{}'", kRopeFactors, type));
    }
    scaling.kind = RopeScaling::Kind::kFactors;
    std::vector<float> values(static_cast<size_t>(factors->shape[0]));
    std::memcpy(values.data(), factors->data.bytes.data(), factors->data.bytes.size());
    scaling.factors.assign(values.begin(), values.end());
  }
  RETURN_IF_ERROR(ApplyRopeScaling(scaling, spec));
  double attention_factor = 1;  // on top of yarn's own
  RETURN_IF_ERROR(keys.Optional("rope.scaling.attn_factor", &attention_factor));
  if (!(attention_factor > 0 && attention_factor < 1e6)) {
    return InvalidArgument(
        fmt::format("the file's '{}' is {}", keys.Name("rope.scaling.attn_factor"), attention_factor));
  }
  spec->rope_magnitude *= attention_factor;
  return Status::Ok();
}

}  // namespace

Result<NetworkPlan> PlanGguf(const GgufFile& file, const std::string& path) {
  NetworkPlan plan;
  ModelSpec& spec = plan.spec;
  const auto architecture = file.String("general.architecture");
  if (!architecture) return InvalidArgument("the file's 'general.architecture' is missing");
  spec.architecture = *architecture;
  spec.name = file.String("general.name").value_or(std::filesystem::path(path).stem().string());
  if (spec.architecture == "llama") {
    // The converters permute the rows of q and k, so that pairs stand side by side.
    spec.rope_pairs = RopePairs::kAdjacent;
  } else if (spec.architecture == "qwen2" || spec.architecture == "qwen3") {
    spec.rope_pairs = RopePairs::kHalves;
    spec.qk_norm = spec.architecture == "qwen3";
  } else if (spec.architecture == "gpt2") {
    spec.norm = NormKind::kLayer;
    spec.mlp = MlpKind::kGeluTanh;
    spec.learned_positions = spec.fused_qkv = true;
  } else {
    return UnsupportedArchitecture(spec.architecture);
  }
  const Keys keys(file, spec.architecture);
  RETURN_IF_ERROR(RefuseFeatures(file, keys));
  RETURN_IF_ERROR(ReadSizes(file, keys, &spec));
  double epsilon = 0;
  const bool rms = spec.norm == NormKind::kRms;
  RETURN_IF_ERROR(keys.Optional(rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", &epsilon));
  spec.norm_eps = static_cast<float>(epsilon);
  // GGUF says by their presence which optional tensors there are; from here on they must be in every layer.
  spec.tied_head = FindTensor(file, "output.weight") == nullptr;
  spec.qkv_bias = FindTensor(file, spec.fused_qkv ? "blk.0.attn_qkv.bias" : "blk.0.attn_q.bias") != nullptr;
  spec.attention_out_bias = FindTensor(file, "blk.0.attn_output.bias") != nullptr;
  spec.mlp_bias = FindTensor(file, "blk.0.ffn_up.bias") != nullptr;
  if (spec.rope_pairs == RopePairs::kNone)
    RETURN_IF_ERROR(ValidateSpec(spec));
  else
    RETURN_IF_ERROR(ReadRope(file, keys, &spec));
  PlanTensors(kRules, "", &plan);
  if (spec.rope_pairs != RopePairs::kNone) plan.ignored.emplace_back(kRopeFactors);  // read above
  return plan;
}

}  // namespace ringside
