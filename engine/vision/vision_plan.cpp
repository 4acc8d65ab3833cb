#include "engine/vision/vision_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/families/huggingface/config_json.h"

namespace ringside {
namespace {

constexpr int64_t kMaxPatches = 16384, kMaxSize = 1 << 16, kMaxLayers = 256;

using Read = Status (*)(const FlatJson& config, VisionSpec* spec);

struct VisionRule {
  VisionRole role;
  std::string_view name;  // "{}" is replaced by the layer's number
};

struct VisionFamily {
  std::string_view wrapper, tower;  // model_type of config.json and of its vision_config
  Read read;
  std::span<const VisionRule> rules;
  std::string_view known;  // a tensor by which the tower's prefix is found
};

constexpr std::string_view kProjectorKnown = "multi_modal_projector.linear_1.weight";

constexpr VisionRule kPixtral[] = {
    {VisionRole::kPatch, "patch_conv.weight"},
    {VisionRole::kInputNorm, "ln_pre.weight"},
    {VisionRole::kNorm, "transformer.layers.{}.attention_norm.weight"},
    {VisionRole::kQuery, "transformer.layers.{}.attention.q_proj.weight"},
    {VisionRole::kKey, "transformer.layers.{}.attention.k_proj.weight"},
    {VisionRole::kValue, "transformer.layers.{}.attention.v_proj.weight"},
    {VisionRole::kOut, "transformer.layers.{}.attention.o_proj.weight"},
    {VisionRole::kMlpNorm, "transformer.layers.{}.ffn_norm.weight"},
    {VisionRole::kGate, "transformer.layers.{}.feed_forward.gate_proj.weight"},
    {VisionRole::kUp, "transformer.layers.{}.feed_forward.up_proj.weight"},
    {VisionRole::kDown, "transformer.layers.{}.feed_forward.down_proj.weight"},
};

constexpr VisionRule kClip[] = {
    {VisionRole::kClass, "embeddings.class_embedding"},
    {VisionRole::kPatch, "embeddings.patch_embedding.weight"},
    {VisionRole::kPositions, "embeddings.position_embedding.weight"},
    {VisionRole::kInputNorm, "pre_layrnorm.weight"},
    {VisionRole::kInputNormBias, "pre_layrnorm.bias"},
    {VisionRole::kNorm, "encoder.layers.{}.layer_norm1.weight"},
    {VisionRole::kNormBias, "encoder.layers.{}.layer_norm1.bias"},
    {VisionRole::kQuery, "encoder.layers.{}.self_attn.q_proj.weight"},
    {VisionRole::kKey, "encoder.layers.{}.self_attn.k_proj.weight"},
    {VisionRole::kValue, "encoder.layers.{}.self_attn.v_proj.weight"},
    {VisionRole::kQueryBias, "encoder.layers.{}.self_attn.q_proj.bias"},
    {VisionRole::kKeyBias, "encoder.layers.{}.self_attn.k_proj.bias"},
    {VisionRole::kValueBias, "encoder.layers.{}.self_attn.v_proj.bias"},
    {VisionRole::kOut, "encoder.layers.{}.self_attn.out_proj.weight"},
    {VisionRole::kOutBias, "encoder.layers.{}.self_attn.out_proj.bias"},
    {VisionRole::kMlpNorm, "encoder.layers.{}.layer_norm2.weight"},
    {VisionRole::kMlpNormBias, "encoder.layers.{}.layer_norm2.bias"},
    {VisionRole::kUp, "encoder.layers.{}.mlp.fc1.weight"},
    {VisionRole::kUpBias, "encoder.layers.{}.mlp.fc1.bias"},
    {VisionRole::kDown, "encoder.layers.{}.mlp.fc2.weight"},
    {VisionRole::kDownBias, "encoder.layers.{}.mlp.fc2.bias"},
};

constexpr VisionRule kProjector[] = {
    {VisionRole::kProjectorNorm, "multi_modal_projector.norm.weight"},
    {VisionRole::kMerger, "multi_modal_projector.patch_merger.merging_layer.weight"},
    {VisionRole::kFirst, "multi_modal_projector.linear_1.weight"},
    {VisionRole::kFirstBias, "multi_modal_projector.linear_1.bias"},
    {VisionRole::kSecond, "multi_modal_projector.linear_2.weight"},
    {VisionRole::kSecondBias, "multi_modal_projector.linear_2.bias"},
};

// As written by llama.cpp's converter.
constexpr VisionRule kGgufPixtral[] = {
    {VisionRole::kPatch, "v.patch_embd.weight"},     {VisionRole::kInputNorm, "v.pre_ln.weight"},
    {VisionRole::kNorm, "v.blk.{}.ln1.weight"},      {VisionRole::kQuery, "v.blk.{}.attn_q.weight"},
    {VisionRole::kKey, "v.blk.{}.attn_k.weight"},    {VisionRole::kValue, "v.blk.{}.attn_v.weight"},
    {VisionRole::kOut, "v.blk.{}.attn_out.weight"},  {VisionRole::kMlpNorm, "v.blk.{}.ln2.weight"},
    {VisionRole::kGate, "v.blk.{}.ffn_gate.weight"}, {VisionRole::kUp, "v.blk.{}.ffn_up.weight"},
    {VisionRole::kDown, "v.blk.{}.ffn_down.weight"}, {VisionRole::kProjectorNorm, "mm.input_norm.weight"},
    {VisionRole::kMerger, "mm.patch_merger.weight"}, {VisionRole::kFirst, "mm.1.weight"},
    {VisionRole::kFirstBias, "mm.1.bias"},           {VisionRole::kSecond, "mm.2.weight"},
    {VisionRole::kSecondBias, "mm.2.bias"},
};

Result<Activation> ReadVisionActivation(const ConfigJson& config, std::string_view key, std::string_view otherwise) {
  ModelSpec read;
  RETURN_IF_ERROR(ReadActivation(config, key, otherwise, &read));
  return read.activation;
}

/// The sizes that all towers have. REQUIRES: `spec` has the family's defaults.
Status ReadTowerSizes(const ConfigJson& vision, VisionSpec* spec) {
  RETURN_IF_ERROR(vision.Optional("num_hidden_layers", &spec->layers));
  RETURN_IF_ERROR(vision.Optional("hidden_size", &spec->hidden));
  RETURN_IF_ERROR(vision.Optional("num_attention_heads", &spec->heads));
  RETURN_IF_ERROR(vision.Optional("intermediate_size", &spec->ffn));
  RETURN_IF_ERROR(vision.Optional("patch_size", &spec->patch));
  int64_t channels = 3;
  RETURN_IF_ERROR(vision.Optional("num_channels", &channels));
  if (channels != 3) return InvalidArgument(fmt::format("pictures of {} channels are not supported", channels));
  if (spec->heads < 1) return InvalidArgument("num_attention_heads must be at least 1");
  spec->head_dim = spec->hidden / spec->heads;
  return vision.Optional("head_dim", &spec->head_dim);
}

/// Drops the last layers, which the model does not use: vision_feature_layer is -1 for all, -2 without the last.
Status ReadFeatureLayer(const ConfigJson& top, int64_t otherwise, VisionSpec* spec) {
  int64_t layer = otherwise;
  RETURN_IF_ERROR(top.Optional("vision_feature_layer", &layer));
  const int64_t used = layer < 0 ? spec->layers + 1 + layer : layer;
  if (used < 1 || used > spec->layers) return InvalidArgument(fmt::format("vision_feature_layer is {}", layer));
  spec->layers = used;
  return Status::Ok();
}

Status ReadProjector(const ConfigJson& top, VisionSpec* spec) {
  ASSIGN_OR_RETURN(spec->projector_activation, ReadVisionActivation(top, "projector_hidden_act", "gelu"));
  spec->projector_biases = true;
  return top.Optional("multimodal_projector_bias", &spec->projector_biases);
}

Status ReadPixtral(const FlatJson& config, VisionSpec* spec) {
  const ConfigJson top(config), vision(config, "vision_config.");
  *spec = {.layers = 24, .hidden = 1024, .heads = 16, .ffn = 4096, .patch = 16};
  RETURN_IF_ERROR(ReadTowerSizes(vision, spec));
  ASSIGN_OR_RETURN(spec->activation, ReadVisionActivation(vision, "hidden_act", "gelu"));
  RETURN_IF_ERROR(vision.Optional("rope_theta", &spec->rope_theta));
  RETURN_IF_ERROR(vision.Optional("rope_parameters.rope_theta", &spec->rope_theta));
  spec->preprocessing.edge = 1024;
  RETURN_IF_ERROR(vision.Optional("image_size", &spec->preprocessing.edge));
  RETURN_IF_ERROR(ReadFeatureLayer(top, -1, spec));
  spec->markers = {.row_end = "[IMG_BREAK]", .end = "[IMG_END]"};
  return ReadProjector(top, spec);
}

Status ReadMistral3(const FlatJson& config, VisionSpec* spec) {
  RETURN_IF_ERROR(ReadPixtral(config, spec));
  const ConfigJson top(config);
  spec->merge = 2;
  RETURN_IF_ERROR(top.Optional("spatial_merge_size", &spec->merge));
  spec->projector_norm = true;
  spec->projector_biases = false;
  RETURN_IF_ERROR(top.Optional("multimodal_projector_bias", &spec->projector_biases));
  return ConfigJson(config, "text_config.").Optional("rms_norm_eps", &spec->projector_eps);
}

Status ReadClip(const FlatJson& config, VisionSpec* spec) {
  const ConfigJson top(config), vision(config, "vision_config.");
  *spec = {.layers = 12, .hidden = 768, .heads = 12, .ffn = 3072, .patch = 32};
  RETURN_IF_ERROR(ReadTowerSizes(vision, spec));
  spec->norm = NormKind::kLayer;
  RETURN_IF_ERROR(vision.Optional("layer_norm_eps", &spec->norm_eps));
  spec->gated = false;
  spec->biases = true;
  spec->quick_gelu = vision.String("hidden_act", "quick_gelu") == "quick_gelu";
  if (!spec->quick_gelu) {
    ASSIGN_OR_RETURN(spec->activation, ReadVisionActivation(vision, "hidden_act", "gelu"));
  }
  spec->positions = VisionPositions::kLearned;
  spec->class_token = true;
  spec->preprocessing.fit = PictureFit::kCrop;
  spec->preprocessing.edge = 224;
  RETURN_IF_ERROR(vision.Optional("image_size", &spec->preprocessing.edge));
  if (const std::string kept = top.String("vision_feature_select_strategy", "default"); kept != "default") {
    return InvalidArgument(fmt::format("vision_feature_select_strategy '{}' is not supported with CLIP", kept));
  }
  RETURN_IF_ERROR(ReadFeatureLayer(top, -2, spec));
  return ReadProjector(top, spec);
}

constexpr VisionFamily kFamilies[] = {
    {"mistral3", "pixtral", ReadMistral3, kPixtral, "patch_conv.weight"},
    {"llava", "pixtral", ReadPixtral, kPixtral, "patch_conv.weight"},
    {"llava", "clip_vision_model", ReadClip, kClip, "embeddings.patch_embedding.weight"},
};

/// Settings of the image processor, under a prefix that depends on the file's version.
Status ReadProcessor(const ConfigJson& file, VisionSpec* spec) {
  VisionPreprocessing& to = spec->preprocessing;
  const bool crops = to.fit == PictureFit::kCrop;
  RETURN_IF_ERROR(file.Optional(crops ? "size.shortest_edge" : "size.longest_edge", &to.edge));
  int64_t crop = to.edge;
  if (crops) RETURN_IF_ERROR(file.Optional("crop_size.height", &crop));
  if (crop != to.edge) return InvalidArgument(fmt::format("pictures of {} pixels are cropped to {}", to.edge, crop));
  int64_t filter = to.resampling == Resampling::kBicubic ? 3 : 2;
  RETURN_IF_ERROR(file.Optional("resample", &filter));
  if (filter != 2 && filter != 3)
    return InvalidArgument(fmt::format("'resample' is {}; 2 and 3 are supported", filter));
  to.resampling = filter == 3 ? Resampling::kBicubic : Resampling::kBilinear;
  for (size_t channel = 0; channel < 3; ++channel) {
    RETURN_IF_ERROR(file.Optional(fmt::format("image_mean.{}", channel), &to.mean[channel]));
    RETURN_IF_ERROR(file.Optional(fmt::format("image_std.{}", channel), &to.deviation[channel]));
  }
  return Status::Ok();
}

Status CheckVisionSpec(const VisionSpec& spec) {
  const auto check = [](std::string_view name, int64_t value, int64_t most) {
    if (value >= 1 && value <= most) return Status::Ok();
    return InvalidArgument(fmt::format("the vision tower's {} is {}; it must be 1 to {}", name, value, most));
  };
  RETURN_IF_ERROR(check("number of layers", spec.layers, kMaxLayers));
  RETURN_IF_ERROR(check("hidden size", spec.hidden, kMaxSize));
  RETURN_IF_ERROR(check("number of heads", spec.heads, kMaxSize));
  RETURN_IF_ERROR(check("head size", spec.head_dim, 256));
  RETURN_IF_ERROR(check("MLP's width", spec.ffn, kMaxSize));
  RETURN_IF_ERROR(check("patch size", spec.patch, 256));
  RETURN_IF_ERROR(check("merged patches", spec.merge, 8));
  RETURN_IF_ERROR(check("picture size", spec.preprocessing.edge, kMaxSize));
  // Axial rotation divides a head's pairs between rows and columns.
  if (spec.head_dim % 4 != 0) return InvalidArgument("the vision tower's head size must be a multiple of 4");
  RETURN_IF_ERROR(check("largest number of patches", spec.grid_patches(), kMaxPatches));
  if (spec.positions == VisionPositions::kLearned && spec.preprocessing.edge % spec.patch != 0) {
    return InvalidArgument("the vision tower's picture size must be a multiple of its patch size");
  }
  const auto& deviation = spec.preprocessing.deviation;
  if (!std::ranges::all_of(deviation, [](float value) { return value > 0; })) {
    return InvalidArgument("'image_std' must be positive");
  }
  return Status::Ok();
}

using Shape = std::vector<int64_t>;
using ShapeFor = Shape (*)(const VisionSpec& spec);

Shape OfHidden(const VisionSpec& spec) { return {spec.hidden}; }
Shape OfHeads(const VisionSpec& spec) { return {spec.heads * spec.head_dim}; }
Shape OfText(const VisionSpec& spec) { return {spec.text_hidden}; }
Shape FromHidden(const VisionSpec& spec) { return {spec.heads * spec.head_dim, spec.hidden}; }
Shape OfMlp(const VisionSpec& spec) { return {spec.ffn, spec.hidden}; }
bool Always(const VisionSpec&) { return true; }
bool HasProjectorNorm(const VisionSpec& spec) { return spec.projector_norm; }
bool HasProjectorBiases(const VisionSpec& spec) { return spec.projector_biases; }

/// The shape of a role's tensor, and whether a tower has it.
struct RoleTraits {
  VisionRole role;
  ShapeFor shape;
  bool (*has)(const VisionSpec& spec) = Always;
};
constexpr RoleTraits kRoles[] = {
    {VisionRole::kPatch,
     [](const VisionSpec& spec) {
       return Shape{spec.hidden, 3, spec.patch, spec.patch};
     }},
    {VisionRole::kClass, OfHidden},
    {VisionRole::kPositions,
     [](const VisionSpec& spec) {
       return Shape{spec.grid * spec.grid + 1, spec.hidden};
     }},
    {VisionRole::kInputNorm, OfHidden},
    {VisionRole::kInputNormBias, OfHidden},
    {VisionRole::kNorm, OfHidden},
    {VisionRole::kNormBias, OfHidden},
    {VisionRole::kQuery, FromHidden},
    {VisionRole::kKey, FromHidden},
    {VisionRole::kValue, FromHidden},
    {VisionRole::kOut,
     [](const VisionSpec& spec) {
       return Shape{spec.hidden, spec.heads * spec.head_dim};
     }},
    {VisionRole::kQueryBias, OfHeads},
    {VisionRole::kKeyBias, OfHeads},
    {VisionRole::kValueBias, OfHeads},
    {VisionRole::kOutBias, OfHidden},
    {VisionRole::kMlpNorm, OfHidden},
    {VisionRole::kMlpNormBias, OfHidden},
    {VisionRole::kGate, OfMlp},
    {VisionRole::kUp, OfMlp},
    {VisionRole::kDown,
     [](const VisionSpec& spec) {
       return Shape{spec.hidden, spec.ffn};
     }},
    {VisionRole::kUpBias, [](const VisionSpec& spec) { return Shape{spec.ffn}; }},
    {VisionRole::kDownBias, OfHidden},
    {VisionRole::kProjectorNorm, OfHidden, HasProjectorNorm},
    {VisionRole::kMerger,
     [](const VisionSpec& spec) {
       return Shape{spec.hidden, spec.hidden * spec.merge * spec.merge};
     },
     HasProjectorNorm},
    {VisionRole::kFirst,
     [](const VisionSpec& spec) {
       return Shape{spec.text_hidden, spec.hidden};
     }},
    {VisionRole::kFirstBias, OfText, HasProjectorBiases},
    {VisionRole::kSecond,
     [](const VisionSpec& spec) {
       return Shape{spec.text_hidden, spec.text_hidden};
     }},
    {VisionRole::kSecondBias, OfText, HasProjectorBiases},
};

/// The part of a tensor's name before `known`, for the only name that ends with it.
std::optional<std::string_view> FindPrefix(std::string_view known, std::span<const std::string_view> names) {
  const auto found = std::ranges::find_if(names, [&](std::string_view name) { return name.ends_with(known); });
  if (found == names.end()) return std::nullopt;
  return found->substr(0, found->size() - known.size());
}

void PlanVisionTensors(std::span<const VisionRule> rules, std::string_view prefix, VisionPlan* plan) {
  for (int64_t layer = -1; layer < plan->spec.layers; ++layer) {
    for (const VisionRule& rule : rules) {
      std::string name = std::string(prefix) + std::string(rule.name);
      const size_t at = name.find("{}");
      const RoleTraits& traits = *std::ranges::find(kRoles, rule.role, &RoleTraits::role);
      if ((at != std::string::npos) != (layer >= 0) || !traits.has(plan->spec)) continue;
      if (layer >= 0) name.replace(at, 2, std::to_string(layer));
      plan->tensors.push_back({rule.role, layer, std::move(name), traits.shape(plan->spec)});
    }
  }
}

/// Completes and checks the spec.
Status FinishVisionSpec(VisionSpec* spec) {
  if (spec->patch > 0 && spec->merge > 0) {
    const int64_t unit = spec->token_pixels();
    spec->grid = (spec->preprocessing.edge + unit - 1) / unit * spec->merge;
  }
  return CheckVisionSpec(*spec);
}

Status NeedInt(const GgufFile& file, std::string_view key, int64_t* value) {
  const auto found = file.Int(key);
  if (!found) return InvalidArgument(fmt::format("'{}' is missing", key));
  *value = *found;
  return Status::Ok();
}

Status ReadGgufPixtral(const GgufFile& file, const ModelSpec& text, VisionSpec* spec) {
  const std::pair<const char*, int64_t*> sizes[] = {
      {"clip.vision.block_count", &spec->layers},         {"clip.vision.embedding_length", &spec->hidden},
      {"clip.vision.attention.head_count", &spec->heads}, {"clip.vision.feed_forward_length", &spec->ffn},
      {"clip.vision.patch_size", &spec->patch},           {"clip.vision.image_size", &spec->preprocessing.edge}};
  for (const auto& [key, size] : sizes) RETURN_IF_ERROR(NeedInt(file, key, size));
  if (spec->heads < 1) return InvalidArgument("'clip.vision.attention.head_count' must be at least 1");
  spec->head_dim = spec->hidden / spec->heads;
  spec->rope_pairs = RopePairs::kAdjacent;  // the converter reorders queries and keys
  spec->norm_eps = static_cast<float>(file.Float("clip.vision.attention.layer_norm_epsilon").value_or(spec->norm_eps));
  const bool silu = file.Bool("clip.use_silu").value_or(false);
  spec->activation = silu ? Activation::kSilu : Activation::kGeluErf;
  const auto has = [&](std::string_view name) {
    return std::ranges::count(file.tensors(), name, &FileTensor::name) > 0;
  };
  spec->projector_norm = has("mm.input_norm.weight");
  spec->projector_biases = has("mm.1.bias");
  spec->projector_eps = text.norm_eps;
  spec->merge = file.Int("clip.vision.spatial_merge_size").value_or(1);
  const auto mean = file.Floats("clip.vision.image_mean"), deviation = file.Floats("clip.vision.image_std");
  for (size_t channel = 0; mean && deviation && mean->size() == 3 && deviation->size() == 3 && channel < 3; ++channel) {
    spec->preprocessing.mean[channel] = static_cast<float>((*mean)[channel]);
    spec->preprocessing.deviation[channel] = static_cast<float>((*deviation)[channel]);
  }
  spec->markers = {.placeholder = "[IMG]", .row_end = "[IMG_BREAK]", .end = "[IMG_END]"};
  return Status::Ok();
}

}  // namespace

Result<VisionPlan> PlanGgufVision(const GgufFile& file, const ModelSpec& text) {
  std::string projector = file.String("clip.projector_type").value_or("");
  if (projector.empty()) projector = file.String("clip.vision.projector_type").value_or("");
  if (file.String("general.architecture") != "clip" || projector != "pixtral") {
    return InvalidArgument(fmt::format("the projector '{}' is not supported; 'pixtral' is", projector));
  }
  VisionPlan plan;
  plan.spec.family = "pixtral";
  plan.spec.text_hidden = text.hidden;
  RETURN_IF_ERROR(ReadGgufPixtral(file, text, &plan.spec));
  RETURN_IF_ERROR(FinishVisionSpec(&plan.spec));
  PlanVisionTensors(kGgufPixtral, "", &plan);
  return plan;
}

Result<std::optional<VisionPlan>> PlanVision(const FlatJson& config, std::span<const FlatJson> processors,
                                             std::span<const std::string_view> tensor_names, int64_t text_hidden) {
  const std::string wrapper = config.String("model_type").value_or(""),
                    tower = config.String("vision_config.model_type").value_or("");
  const auto* family = std::ranges::find_if(
      kFamilies, [&](const VisionFamily& one) { return one.wrapper == wrapper && one.tower == tower; });
  if (family == std::end(kFamilies)) return std::optional<VisionPlan>();
  const auto prefix = FindPrefix(family->known, tensor_names), projector = FindPrefix(kProjectorKnown, tensor_names);
  if (!prefix || !projector) return std::optional<VisionPlan>();
  VisionPlan plan;
  RETURN_IF_ERROR(family->read(config, &plan.spec));
  plan.spec.family = tower;
  plan.spec.text_hidden = text_hidden;
  RETURN_IF_ERROR(ConfigJson(config).Optional("image_token_index", &plan.spec.placeholder));
  RETURN_IF_ERROR(ConfigJson(config).Optional("image_token_id", &plan.spec.placeholder));
  for (const FlatJson& file : processors) {
    for (const char* group : {"", "image_processor."})
      RETURN_IF_ERROR(ReadProcessor(ConfigJson(file, group), &plan.spec));
  }
  RETURN_IF_ERROR(FinishVisionSpec(&plan.spec));
  PlanVisionTensors(family->rules, *prefix, &plan);
  PlanVisionTensors(kProjector, *projector, &plan);
  return std::optional(std::move(plan));
}

}  // namespace ringside
