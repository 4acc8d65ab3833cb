#include "engine/import/faster_transformer_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "engine/families/rope_scaling.h"
#include "engine/import/faster_transformer_section.h"

namespace ringside {
namespace {

// Matrices are [in, out]; queries, keys and values are fused.
constexpr TensorRule kFasterTransformerRules[] = {
    {TensorRole::kEmbedding, "wte"},
    {TensorRole::kPositions, "wpe"},
    {TensorRole::kEmbeddingNorm, "pre_decoder_layernorm.weight"},
    {TensorRole::kEmbeddingNormBias, "pre_decoder_layernorm.bias"},
    {TensorRole::kHead, "model.lm_head.weight"},
    {TensorRole::kHeadBias, "model.lm_head.bias"},
    {TensorRole::kFinalNorm, "final_layernorm.weight"},
    {TensorRole::kFinalNormBias, "final_layernorm.bias"},
    {TensorRole::kAttentionNorm, "layers.{}.input_layernorm.weight"},
    {TensorRole::kAttentionNormBias, "layers.{}.input_layernorm.bias"},
    {TensorRole::kQkv, "layers.{}.attention.query_key_value.weight", true},
    {TensorRole::kQkvBias, "layers.{}.attention.query_key_value.bias"},
    {TensorRole::kAttentionOut, "layers.{}.attention.dense.weight", true},
    {TensorRole::kAttentionOutBias, "layers.{}.attention.dense.bias"},
    {TensorRole::kMlpNorm, "layers.{}.post_attention_layernorm.weight"},
    {TensorRole::kMlpNormBias, "layers.{}.post_attention_layernorm.bias"},
    {TensorRole::kUp, "layers.{}.mlp.dense_h_to_4h.weight", true},
    {TensorRole::kUpBias, "layers.{}.mlp.dense_h_to_4h.bias"},
    {TensorRole::kDown, "layers.{}.mlp.dense_4h_to_h.weight", true},
    {TensorRole::kDownBias, "layers.{}.mlp.dense_4h_to_h.bias"},
};
Status ReadSectionActivation(const Section& section, Activation otherwise, ModelSpec* spec) {
  spec->activation = otherwise;
  const auto name = section.Text("activation_type");
  if (!name) return Status::Ok();
  if (*name == "Gelu" || *name == "gelu") {
    spec->activation = Activation::kGeluTanh;
  } else if (*name == "GeluErf") {  // our converter's own word: FasterTransformer has none
    spec->activation = Activation::kGeluErf;
  } else if (*name == "Relu" || *name == "relu") {
    spec->activation = Activation::kRelu;
  } else {
    return section.Unsupported("activation_type");
  }
  return Status::Ok();
}

Status ReadSectionSizes(const Section& section, ModelSpec* spec) {
  RETURN_IF_ERROR(section.Need("num_layer", &spec->layers));
  RETURN_IF_ERROR(section.Need("head_num", &spec->heads));
  RETURN_IF_ERROR(section.Need("size_per_head", &spec->head_dim));
  RETURN_IF_ERROR(section.Need("inter_size", &spec->ffn));
  RETURN_IF_ERROR(section.Need("vocab_size", &spec->vocab));
  constexpr int64_t kMost = 1 << 17;
  const std::pair<std::string_view, int64_t> factors[] = {{"head_num", spec->heads}, {"size_per_head", spec->head_dim}};
  for (const auto& [key, size] : factors) {
    if (size < 1 || size > kMost)
      return InvalidArgument(fmt::format("config.ini: '{}' is {}; it must be 1 to {}", key, size, kMost));
  }
  spec->hidden = spec->heads * spec->head_dim;
  spec->kv_heads = spec->heads;
  spec->trained_context = 2048;
  RETURN_IF_ERROR(section.Optional("max_pos_seq_len", &spec->trained_context));
  spec->norm = NormKind::kLayer;
  spec->norm_biases = spec->fused_qkv = spec->mlp_bias = true;
  spec->gated = false;
  spec->norm_eps = 1e-6f;
  RETURN_IF_ERROR(section.Optional("layernorm_eps", &spec->norm_eps));
  int64_t prompts = 0, experts = 0;
  RETURN_IF_ERROR(section.Optional("prompt_learning_type", &prompts));
  if (prompts != 0) return section.Unsupported("prompt_learning_type");
  RETURN_IF_ERROR(section.Optional("expert_num", &experts));
  return experts > 0 ? section.Unsupported("expert_num") : Status::Ok();
}

// A "model_variant" implies some of the other keys.
Status ReadGpt(const Section& section, ModelSpec* spec) {
  const std::string variant = section.Text("model_variant").value_or("gpt");
  const bool bloom = variant.starts_with("bloom"), opt = variant.starts_with("opt");
  if (variant.ends_with("-post")) return section.Unsupported("model_variant");
  RETURN_IF_ERROR(ReadSectionSizes(section, spec));
  if ((bloom || opt) && !section.Text("layernorm_eps")) spec->norm_eps = 1e-5f;
  RETURN_IF_ERROR(ReadSectionActivation(section, opt ? Activation::kRelu : Activation::kGeluTanh, spec));
  const auto layernorm = section.Text("layernorm_type");
  if (layernorm && *layernorm != "pre_layernorm") return section.Unsupported("layernorm_type");
  RETURN_IF_ERROR(section.Expect("has_post_decoder_layernorm", true));
  RETURN_IF_ERROR(section.Expect("has_adapters", false));
  bool slopes = bloom;
  spec->learned_positions = !bloom;
  spec->embedding_norm = bloom;
  RETURN_IF_ERROR(section.Optional("has_positional_encoding", &spec->learned_positions));
  RETURN_IF_ERROR(section.Optional("has_pre_decoder_layernorm", &spec->embedding_norm));
  RETURN_IF_ERROR(section.Optional("use_attention_linear_bias", &slopes));
  if (slopes) spec->alibi = 8;
  if (spec->learned_positions) RETURN_IF_ERROR(section.Need("max_pos_seq_len", &spec->trained_context));
  spec->qkv_bias = spec->attention_out_bias = true;
  return ValidateSpec(*spec);
}

Status Rotate(const Section& section, RopePairs pairs, ModelSpec* spec) {
  spec->rope_pairs = pairs;
  RETURN_IF_ERROR(section.Need("rotary_embedding", &spec->rotary));
  RETURN_IF_ERROR(ValidateSpec(*spec));
  ASSIGN_OR_RETURN(Rotation rotation, MakeRotation({}, spec->rotary));
  spec->rotations.push_back(std::move(rotation));
  return Status::Ok();
}

Status ReadGptJ(const Section& section, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadSectionSizes(section, spec));
  RETURN_IF_ERROR(ReadSectionActivation(section, Activation::kGeluTanh, spec));
  spec->parallel = spec->shared_norm = spec->head_bias = true;
  return Rotate(section, RopePairs::kAdjacent, spec);
}

Status ReadGptNeoX(const Section& section, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadSectionSizes(section, spec));
  RETURN_IF_ERROR(ReadSectionActivation(section, Activation::kGeluTanh, spec));
  spec->qkv_bias = spec->attention_out_bias = spec->parallel = true;
  RETURN_IF_ERROR(section.Optional("use_gptj_residual", &spec->parallel));
  return Rotate(section, RopePairs::kHalves, spec);
}

Result<DType> ReadType(const Section& section) {
  const std::string name = section.Text("weight_data_type").value_or("fp32");
  if (name == "fp32") return DType::kF32;
  if (name == "fp16") return DType::kF16;
  if (name == "bf16") return DType::kBF16;
  return section.Unsupported("weight_data_type");
}

// Combines the parts of a tensor, however many, into one.
class Shaper {
 public:
  Shaper(const FasterTransformerFolder& folder, const ModelSpec& spec, DType dtype, int64_t gpus)
      : folder_(folder), spec_(spec), dtype_(dtype), gpus_(gpus) {}

  Result<FileTensor> Shape(const PlannedTensor& planned) const {
    const PieceCut cut = CutOf(planned, spec_);
    const auto found = folder_.tensors().find(planned.name);
    const std::string path = fmt::format("{}/{}{}.bin", folder_.path(), planned.name, cut.numbered ? ".0" : "");
    if (found == folder_.tensors().end() || found->second.numbered != cut.numbered) {
      return Corruption(path + " is missing");
    }
    const auto& pieces = found->second.bytes;
    const auto count = static_cast<int64_t>(pieces.size());
    if (cut.numbered && count < gpus_) {
      return Corruption(fmt::format("{}/{}.{}.bin is missing", folder_.path(), planned.name, count));
    }
    if (cut.numbered && count > gpus_) {
      return Corruption(fmt::format("{}/{}.{}.bin is unexpected: config.ini's 'tensor_para_size' is {}", folder_.path(),
                                    planned.name, gpus_, gpus_));
    }
    FileTensor tensor{.name = planned.name, .shape = planned.shape};
    int64_t values = 1;
    for (const int64_t size : planned.shape) values *= size;
    const int64_t cols = planned.shape.back();
    tensor.data = {.dtype = dtype_, .rows = values / cols, .cols = cols};
    if (values % (count * cut.stretches) != 0) {
      return InvalidArgument(
          fmt::format("{}: {} values cannot be shared by {} GPUs", planned.name, values / cut.stretches, count));
    }
    const int64_t bytes = StorageBytes(dtype_, values / count);
    for (int64_t i = 0; i < count; ++i) {
      const size_t has = pieces[static_cast<size_t>(i)].size();
      if (static_cast<int64_t>(has) == bytes) continue;
      return Corruption(fmt::format("{}/{}{}.bin has {} bytes, config.ini implies {}", folder_.path(), planned.name,
                                    cut.numbered ? fmt::format(".{}", i) : "", has, bytes));
    }
    const bool divided = cut.divided && gpus_ > 1;
    if (count == 1 && !divided) {
      tensor.data.bytes = pieces.front();
      return tensor;
    }
    tensor.pieces = pieces;
    tensor.stretches = cut.stretches;
    if (divided) tensor.scale = static_cast<float>(gpus_);
    return tensor;
  }

 private:
  const FasterTransformerFolder& folder_;
  const ModelSpec& spec_;
  const DType dtype_;
  const int64_t gpus_;
};

int64_t MaxPieces(const FasterTransformerFolder& folder) {
  size_t most = 1;
  for (const auto& [name, pieces] : folder.tensors()) most = std::max(most, pieces.bytes.size());
  return static_cast<int64_t>(most);
}

/// The name of the folder.
std::string NameOf(const FasterTransformerFolder& folder) {
  std::filesystem::path path = std::filesystem::path(folder.path()).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  if (path.filename().string().ends_with("-gpu")) path = path.parent_path();
  return path.filename().string();
}

Result<ModelSpec> ReadSpec(const FasterTransformerFolder& folder) {
  ModelSpec spec;
  spec.name = NameOf(folder);
  if (folder.config().HasSection("encoder") && folder.config().HasSection("decoder")) {
    RETURN_IF_ERROR(ReadFasterTransformerT5(folder.config(), &spec));
    return spec;
  }
  static constexpr struct {
    std::string_view name;
    Status (*read)(const Section& section, ModelSpec* spec);
  } kSections[] = {{"gpt", ReadGpt}, {"gptj", ReadGptJ}, {"gptneox", ReadGptNeoX}};
  for (const auto& known : kSections) {
    if (!folder.config().HasSection(known.name)) continue;
    spec.architecture = known.name;
    const auto has = [&](std::string_view name) { return folder.tensors().find(name) != folder.tensors().end(); };
    spec.tied_head = !has("model.lm_head.weight");
    RETURN_IF_ERROR(known.read(Section(folder.config(), known.name), &spec));
    // A folder may have only the sum of both biases, which is equivalent.
    if (spec.architecture == "gptneox" && spec.parallel && has(BiasSum(0))) {
      spec.attention_out_bias = has("model.layers.0.attention.dense.bias");
    }
    return spec;
  }
  return InvalidArgument("config.ini has none of [gpt], [gptj], [gptneox], or [encoder] with [decoder]");
}

}  // namespace

std::span<const TensorRule> FasterTransformerRules() { return kFasterTransformerRules; }

std::string BiasSum(int64_t layer) { return fmt::format("model.layers.{}.mlp.attention.bias.sum", layer); }

PieceCut CutOf(const PlannedTensor& planned, const ModelSpec& spec) {
  switch (planned.role) {
    case TensorRole::kQkv:
      return {.numbered = true, .stretches = 3 * spec.hidden};
    case TensorRole::kQkvBias:
      return {.numbered = true, .stretches = 3};
    case TensorRole::kQuery:
    case TensorRole::kKey:
    case TensorRole::kValue:
    case TensorRole::kCrossQuery:
    case TensorRole::kCrossKey:
    case TensorRole::kCrossValue:
    case TensorRole::kGate:
    case TensorRole::kUp:
      return {.numbered = true, .stretches = spec.hidden};
    case TensorRole::kUpBias:
    case TensorRole::kDistanceBiases:
    case TensorRole::kCrossOut:
    case TensorRole::kAttentionOut:
    case TensorRole::kDown:
      return {.numbered = true};
    case TensorRole::kAttentionOutBias:
    case TensorRole::kDownBias:
      return {.divided = spec.architecture == "gptneox"};
    default:
      return {};
  }
}

Result<FasterTransformerPlan> PlanFasterTransformer(const FasterTransformerFolder& folder) {
  FasterTransformerPlan out;
  NetworkPlan& plan = out.network;
  ASSIGN_OR_RETURN(plan.spec, ReadSpec(folder));
  const bool encodes = plan.spec.encoder_layers > 0;
  const Section section(folder.config(), encodes ? "decoder" : plan.spec.architecture);
  ASSIGN_OR_RETURN(const DType dtype, ReadType(section));
  RETURN_IF_ERROR(section.Optional("start_id", &out.start_id));
  RETURN_IF_ERROR(section.Optional(encodes ? "eos_token_id" : "end_id", &out.end_id));
  int64_t gpus = MaxPieces(folder);
  RETURN_IF_ERROR(section.Optional("tensor_para_size", &gpus));
  if (encodes) {
    PlanTensors(FasterTransformerT5Rules(plan.spec), "", &plan);
    plan.ignored = {"shared.weight", "lm_head.weight"};  // the transposed embedding, and a tied head
  } else {
    PlanTensors(kFasterTransformerRules, "model.", &plan);
  }
  if (plan.spec.architecture == "gptneox" && plan.spec.parallel) {
    for (int64_t layer = 0; layer < plan.spec.layers; ++layer) plan.ignored.push_back(BiasSum(layer));
  }
  const Shaper shaper(folder, plan.spec, dtype, gpus);
  for (PlannedTensor& planned : plan.tensors) {
    const bool sum = planned.role == TensorRole::kDownBias && !plan.spec.attention_out_bias;
    if (sum && plan.spec.architecture == "gptneox") planned.name = BiasSum(planned.layer);
    ASSIGN_OR_RETURN(FileTensor tensor, shaper.Shape(planned));
    out.tensors.push_back(std::move(tensor));
  }
  std::set<std::string_view> known;
  for (const PlannedTensor& planned : plan.tensors) known.insert(planned.name);
  for (const auto& [name, pieces] : folder.tensors()) {  // CheckTensors ignores or rejects the others
    if (!known.contains(name)) out.tensors.push_back({.name = name});
  }
  return out;
}

}  // namespace ringside
