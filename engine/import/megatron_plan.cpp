#include "engine/import/megatron_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>

namespace ringside {
namespace {

constexpr std::string_view kMegatronPrefix = "model.language_model.";
constexpr TensorRule kMegatronRules[] = {
    {TensorRole::kEmbedding, "embedding.word_embeddings.weight"},
    {TensorRole::kPositions, "embedding.position_embeddings.weight"},
    {TensorRole::kHead, "model.language_model.output_layer.weight"},
    {TensorRole::kFinalNorm, "encoder.final_layernorm.weight"},
    {TensorRole::kFinalNormBias, "encoder.final_layernorm.bias"},
    {TensorRole::kAttentionNorm, "encoder.layers.{}.input_layernorm.weight"},
    {TensorRole::kAttentionNormBias, "encoder.layers.{}.input_layernorm.bias"},
    {TensorRole::kQkv, "encoder.layers.{}.self_attention.query_key_value.weight"},
    {TensorRole::kQkvBias, "encoder.layers.{}.self_attention.query_key_value.bias"},
    {TensorRole::kAttentionOut, "encoder.layers.{}.self_attention.dense.weight"},
    {TensorRole::kAttentionOutBias, "encoder.layers.{}.self_attention.dense.bias"},
    {TensorRole::kMlpNorm, "encoder.layers.{}.post_attention_layernorm.weight"},
    {TensorRole::kMlpNormBias, "encoder.layers.{}.post_attention_layernorm.bias"},
    {TensorRole::kUp, "encoder.layers.{}.mlp.dense_h_to_4h.weight"},
    {TensorRole::kUpBias, "encoder.layers.{}.mlp.dense_h_to_4h.bias"},
    {TensorRole::kDown, "encoder.layers.{}.mlp.dense_4h_to_h.weight"},
    {TensorRole::kDownBias, "encoder.layers.{}.mlp.dense_4h_to_h.bias"},
};

// How a tensor of a given role was sharded: the split dimension (-1: replicated), and the number of stretches
// (FileTensor).
struct Share {
  int dimension = -1;
  int64_t stretches = 1;
};
Share ShareOf(TensorRole role, bool plain_qkv, const ModelSpec& spec) {
  switch (role) {
    case TensorRole::kEmbedding:
    case TensorRole::kHead:
    case TensorRole::kUp:
    case TensorRole::kUpBias:
      return {.dimension = 0};
    case TensorRole::kQkv:
    case TensorRole::kQkvBias:
      return {.dimension = 0, .stretches = plain_qkv ? 3 : 1};
    case TensorRole::kAttentionOut:
    case TensorRole::kDown:
      return {.dimension = 1, .stretches = spec.hidden};
    default:
      return {};
  }
}

class SettingsReader {
 public:
  explicit SettingsReader(const MegatronCheckpoint& checkpoint) : settings_(checkpoint.settings()) {}

  template <class T>
  Status Optional(std::string_view key, T* value) const {
    const auto found = settings_.find(key);
    if (found == settings_.end()) return Status::Ok();
    if (const auto* given = std::get_if<T>(&found->second)) {
      *value = *given;
      return Status::Ok();
    }
    return InvalidArgument(fmt::format("the setting '{}' has the wrong type", key));
  }
  Status Need(std::string_view key, int64_t* value) const {
    if (!settings_.contains(key)) return InvalidArgument(fmt::format("the setting '{}' is missing", key));
    return Optional(key, value);
  }
  template <class T>
  Status Expect(std::string_view key, T expected) const {
    T value = expected;
    RETURN_IF_ERROR(Optional(key, &value));
    if (value == expected) return Status::Ok();
    return InvalidArgument(fmt::format("the setting '{}' = '{}' is not supported", key, value));
  }

 private:
  const MegatronCheckpoint::Settings& settings_;
};

// Features of other Megatron-LM and NeMo networks that are not supported.
Status RejectUnsupported(const SettingsReader& settings) {
  RETURN_IF_ERROR(settings.Expect<int64_t>("pipeline_model_parallel_size", 1));
  for (const std::string_view key :
       {"swiglu", "squared_relu", "use_rotary_position_embeddings", "multi_query_attention", "group_query_attention",
        "apply_residual_connection_post_layernorm", "apply_layernorm_1p", "mcore_gpt", "position_interpolation"}) {
    RETURN_IF_ERROR(settings.Expect(key, false));
  }
  for (const std::string_view key : {"add_bias_linear", "bias", "add_position_embedding"}) {
    RETURN_IF_ERROR(settings.Expect(key, true));
  }
  RETURN_IF_ERROR(settings.Expect<std::string>("position_embedding_type", "learned_absolute"));
  RETURN_IF_ERROR(settings.Expect<std::string>("transformer_block_type", "pre_ln"));
  return settings.Expect<std::string>("activation", "gelu");
}

Status ReadSpec(const MegatronCheckpoint& checkpoint, ModelSpec* spec) {
  const SettingsReader settings(checkpoint);
  RETURN_IF_ERROR(RejectUnsupported(settings));
  RETURN_IF_ERROR(settings.Need("num_layers", &spec->layers));
  RETURN_IF_ERROR(settings.Need("hidden_size", &spec->hidden));
  RETURN_IF_ERROR(settings.Need("num_attention_heads", &spec->heads));
  if (spec->heads < 1 || spec->hidden < 1 || spec->hidden > 1 << 17 || spec->hidden % spec->heads != 0) {
    return InvalidArgument(
        fmt::format("the hidden size {} is not a multiple of the {} heads", spec->hidden, spec->heads));
  }
  spec->kv_heads = spec->heads;
  spec->head_dim = spec->hidden / spec->heads;
  std::string norm = "layernorm";
  RETURN_IF_ERROR(settings.Optional("normalization", &norm));
  if (norm == "layernorm1p") {
    spec->norm_offset = 1;
  } else if (norm != "layernorm" && norm != "LayerNorm") {
    return InvalidArgument(fmt::format("the setting 'normalization' = '{}' is not supported", norm));
  }
  double epsilon = 1e-5;
  RETURN_IF_ERROR(settings.Optional("layernorm_epsilon", &epsilon));
  spec->norm_eps = static_cast<float>(epsilon);
  spec->norm = NormKind::kLayer;
  spec->gated = false;
  // Fused bias-GELU kernels, the default, use the tanh approximation.
  bool fused = true;
  RETURN_IF_ERROR(settings.Optional("bias_gelu_fusion", &fused));
  RETURN_IF_ERROR(settings.Optional("bias_activation_fusion", &fused));
  spec->activation = fused ? Activation::kGeluTanh : Activation::kGeluErf;
  spec->norm_biases = spec->fused_qkv = spec->learned_positions = true;
  spec->qkv_bias = spec->attention_out_bias = spec->mlp_bias = true;
  spec->tied_head = true;
  RETURN_IF_ERROR(settings.Optional("share_embeddings_and_output_weights", &spec->tied_head));
  bool apart = !spec->tied_head;
  RETURN_IF_ERROR(settings.Optional("untie_embeddings_and_output_weights", &apart));
  spec->tied_head = !apart;
  return Status::Ok();
}

using Rank = std::map<std::string, FileTensor, std::less<>>;

// Older files name two modules differently.
class Spelling {
 public:
  explicit Spelling(const Rank& rank) {
    const auto has = [&](std::string_view start) {
      const auto found = rank.lower_bound(start);
      return found != rank.end() && found->first.starts_with(start);
    };
    transformer_ = has("model.language_model.transformer.");
    attention_ = has(Of("model.language_model.encoder.layers.0.") + "attention.");
  }

  std::string Of(std::string name) const {
    if (transformer_) Replace(".encoder.", ".transformer.", &name);
    if (attention_) Replace(".self_attention.", ".attention.", &name);
    return name;
  }

 private:
  static void Replace(std::string_view from, std::string_view to, std::string* name) {
    if (const size_t at = name->find(from); at != std::string::npos) name->replace(at, from.size(), to);
  }

  bool transformer_ = false, attention_ = false;
};

// Sizes that the settings may omit come from the tensors, each a part of `shared` parts.
Status ReadRows(const Rank& rank, const std::string& name, int64_t shared, int64_t* rows) {
  constexpr int64_t kMost = 1 << 24;
  const auto found = rank.find(name);
  if (found == rank.end()) return Corruption(fmt::format("tensor '{}' is missing", name));
  *rows = std::min(found->second.shape.front(), kMost) * shared;
  return Status::Ok();
}

Result<FileTensor> Join(const MegatronCheckpoint& checkpoint, const PlannedTensor& planned, const Share& share) {
  const auto count = static_cast<int64_t>(share.dimension < 0 ? 1 : checkpoint.ranks().size());
  FileTensor out{.name = planned.name, .shape = planned.shape, .stretches = share.stretches};
  std::vector<int64_t> part = planned.shape;
  if (share.dimension >= 0) part[static_cast<size_t>(share.dimension)] /= count;
  for (int64_t rank = 0; rank < count; ++rank) {
    const auto& tensors = checkpoint.ranks()[static_cast<size_t>(rank)];
    const auto found = tensors.find(planned.name);
    const std::string of = fmt::format("tensor '{}' of rank {}", planned.name, rank);
    if (found == tensors.end()) return Corruption(of + " is missing");
    const FileTensor& tensor = found->second;
    const bool divides = share.dimension < 0 || planned.shape[static_cast<size_t>(share.dimension)] % count == 0;
    if (!divides || tensor.shape != part) {
      return Corruption(fmt::format("{} has shape [{}], the settings require [{}]", of, fmt::join(tensor.shape, ", "),
                                    fmt::join(part, ", ")));
    }
    if (rank > 0 && tensor.data.dtype != out.data.dtype) return Corruption(of + " has another type than rank 0's");
    out.data.dtype = tensor.data.dtype;
    out.pieces.push_back(tensor.data.bytes);
  }
  out.data.cols = out.shape.back();
  out.data.rows = out.shape.size() == 1 ? 1 : out.shape.front();
  if (count > 1) return out;
  out.data.bytes = out.pieces.front();
  out.pieces.clear();
  return out;
}

}  // namespace

Result<MegatronPlan> PlanMegatron(const MegatronCheckpoint& checkpoint) {
  MegatronPlan out;
  NetworkPlan& plan = out.network;
  ModelSpec& spec = plan.spec;
  spec.architecture = "megatron";
  std::filesystem::path path = std::filesystem::path(checkpoint.path()).lexically_normal();
  spec.name = (path.has_filename() ? path : path.parent_path()).stem().string();
  RETURN_IF_ERROR(ReadSpec(checkpoint, &spec));
  const auto ranks = static_cast<int64_t>(checkpoint.ranks().size());
  int64_t told = ranks;
  RETURN_IF_ERROR(SettingsReader(checkpoint).Optional("tensor_model_parallel_size", &told));
  if (told != ranks) {
    return Corruption(
        fmt::format("the checkpoint has files of {} of {} GPUs ('tensor_model_parallel_size')", ranks, told));
  }
  const Rank& first = checkpoint.ranks().front();
  const Spelling spelling(first);
  const std::string prefix(kMegatronPrefix);
  RETURN_IF_ERROR(ReadRows(first, prefix + "embedding.word_embeddings.weight", ranks, &spec.vocab));
  RETURN_IF_ERROR(ReadRows(first, prefix + "embedding.position_embeddings.weight", 1, &spec.trained_context));
  const std::string inner = spelling.Of(prefix + "encoder.layers.0.mlp.dense_h_to_4h.bias");
  RETURN_IF_ERROR(ReadRows(first, inner, ranks, &spec.ffn));
  RETURN_IF_ERROR(ValidateSpec(spec));
  // Rows of queries, keys and values: [3, heads, width] in the first version, [heads, 3, width] since the second.
  const bool plain_qkv = checkpoint.version() == 0;
  if (!plain_qkv && !(checkpoint.version() >= 2)) {
    return InvalidArgument(fmt::format("a checkpoint of version {} is not supported", checkpoint.version()));
  }
  PlanTensors(kMegatronRules, kMegatronPrefix, &plan);
  std::set<std::string_view> known;
  for (PlannedTensor& planned : plan.tensors) {
    planned.name = spelling.Of(std::move(planned.name));
    const bool qkv = planned.role == TensorRole::kQkv || planned.role == TensorRole::kQkvBias;
    if (qkv && !plain_qkv) planned.order = RowOrder::kByGroup;
    ASSIGN_OR_RETURN(FileTensor tensor, Join(checkpoint, planned, ShareOf(planned.role, plain_qkv, spec)));
    out.tensors.push_back(std::move(tensor));
    known.insert(planned.name);
  }
  for (const auto& [name, tensor] : first) {  // CheckTensors rejects the others
    if (!known.contains(name)) out.tensors.push_back({.name = name});
  }
  return out;
}

}  // namespace ringside
