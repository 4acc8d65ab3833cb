#include "engine/vision/vision_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/families/huggingface/config_json.h"
#include "engine/vision/vision_tensors.h"

namespace ringside {
namespace {

using Read = Status (*)(const FlatJson& config, VisionSpec* spec);

/// Tensors with one prefix, by which all their names begin.
struct VisionPart {
  std::span<const VisionRule> rules;
  std::string_view known;  // a tensor by which the prefix is found
};

struct VisionFamily {
  std::string_view wrapper, tower;  // model_type of config.json and of its vision_config; "": any
  Read read;
  std::array<VisionPart, 3> parts;
};

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
};

constexpr VisionRule kSiglip[] = {
    {VisionRole::kPatch, "embeddings.patch_embedding.weight"},
    {VisionRole::kPatchBias, "embeddings.patch_embedding.bias"},
    {VisionRole::kPositions, "embeddings.position_embedding.weight"},
    {VisionRole::kOutputNorm, "post_layernorm.weight"},
    {VisionRole::kOutputNormBias, "post_layernorm.bias"},
};

// CLIP and SigLIP have these.
constexpr VisionRule kClipLayers[] = {
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

constexpr VisionRule kGemma3Projector[] = {
    {VisionRole::kProjectorNorm, "multi_modal_projector.mm_soft_emb_norm.weight"},
    {VisionRole::kProjection, "multi_modal_projector.mm_input_projection_weight"},
};

constexpr VisionRule kQwen2[] = {
    {VisionRole::kPatch, "patch_embed.proj.weight"},      {VisionRole::kNorm, "blocks.{}.norm1.weight"},
    {VisionRole::kNormBias, "blocks.{}.norm1.bias"},      {VisionRole::kQkv, "blocks.{}.attn.qkv.weight"},
    {VisionRole::kQkvBias, "blocks.{}.attn.qkv.bias"},    {VisionRole::kOut, "blocks.{}.attn.proj.weight"},
    {VisionRole::kOutBias, "blocks.{}.attn.proj.bias"},   {VisionRole::kMlpNorm, "blocks.{}.norm2.weight"},
    {VisionRole::kMlpNormBias, "blocks.{}.norm2.bias"},   {VisionRole::kUp, "blocks.{}.mlp.fc1.weight"},
    {VisionRole::kUpBias, "blocks.{}.mlp.fc1.bias"},      {VisionRole::kDown, "blocks.{}.mlp.fc2.weight"},
    {VisionRole::kDownBias, "blocks.{}.mlp.fc2.bias"},    {VisionRole::kProjectorNorm, "merger.ln_q.weight"},
    {VisionRole::kProjectorNormBias, "merger.ln_q.bias"}, {VisionRole::kFirst, "merger.mlp.0.weight"},
    {VisionRole::kFirstBias, "merger.mlp.0.bias"},        {VisionRole::kSecond, "merger.mlp.2.weight"},
    {VisionRole::kSecondBias, "merger.mlp.2.bias"},
};

constexpr VisionRule kQwen25[] = {
    {VisionRole::kPatch, "patch_embed.proj.weight"},
    {VisionRole::kNorm, "blocks.{}.norm1.weight"},
    {VisionRole::kQkv, "blocks.{}.attn.qkv.weight"},
    {VisionRole::kQkvBias, "blocks.{}.attn.qkv.bias"},
    {VisionRole::kOut, "blocks.{}.attn.proj.weight"},
    {VisionRole::kOutBias, "blocks.{}.attn.proj.bias"},
    {VisionRole::kMlpNorm, "blocks.{}.norm2.weight"},
    {VisionRole::kGate, "blocks.{}.mlp.gate_proj.weight"},
    {VisionRole::kGateBias, "blocks.{}.mlp.gate_proj.bias"},
    {VisionRole::kUp, "blocks.{}.mlp.up_proj.weight"},
    {VisionRole::kUpBias, "blocks.{}.mlp.up_proj.bias"},
    {VisionRole::kDown, "blocks.{}.mlp.down_proj.weight"},
    {VisionRole::kDownBias, "blocks.{}.mlp.down_proj.bias"},
    {VisionRole::kProjectorNorm, "merger.ln_q.weight"},
    {VisionRole::kFirst, "merger.mlp.0.weight"},
    {VisionRole::kFirstBias, "merger.mlp.0.bias"},
    {VisionRole::kSecond, "merger.mlp.2.weight"},
    {VisionRole::kSecondBias, "merger.mlp.2.bias"},
};

constexpr VisionRule kQwen3[] = {
    {VisionRole::kPatch, "patch_embed.proj.weight"},
    {VisionRole::kPatchBias, "patch_embed.proj.bias"},
    {VisionRole::kPositions, "pos_embed.weight"},
    {VisionRole::kNorm, "blocks.{}.norm1.weight"},
    {VisionRole::kNormBias, "blocks.{}.norm1.bias"},
    {VisionRole::kQkv, "blocks.{}.attn.qkv.weight"},
    {VisionRole::kQkvBias, "blocks.{}.attn.qkv.bias"},
    {VisionRole::kOut, "blocks.{}.attn.proj.weight"},
    {VisionRole::kOutBias, "blocks.{}.attn.proj.bias"},
    {VisionRole::kMlpNorm, "blocks.{}.norm2.weight"},
    {VisionRole::kMlpNormBias, "blocks.{}.norm2.bias"},
    {VisionRole::kUp, "blocks.{}.mlp.linear_fc1.weight"},
    {VisionRole::kUpBias, "blocks.{}.mlp.linear_fc1.bias"},
    {VisionRole::kDown, "blocks.{}.mlp.linear_fc2.weight"},
    {VisionRole::kDownBias, "blocks.{}.mlp.linear_fc2.bias"},
    {VisionRole::kProjectorNorm, "merger.norm.weight"},
    {VisionRole::kProjectorNormBias, "merger.norm.bias"},
    {VisionRole::kFirst, "merger.linear_fc1.weight"},
    {VisionRole::kFirstBias, "merger.linear_fc1.bias"},
    {VisionRole::kSecond, "merger.linear_fc2.weight"},
    {VisionRole::kSecondBias, "merger.linear_fc2.bias"},
    {VisionRole::kDeepNorm, "deepstack_merger_list.{}.norm.weight"},
    {VisionRole::kDeepNormBias, "deepstack_merger_list.{}.norm.bias"},
    {VisionRole::kDeepFirst, "deepstack_merger_list.{}.linear_fc1.weight"},
    {VisionRole::kDeepFirstBias, "deepstack_merger_list.{}.linear_fc1.bias"},
    {VisionRole::kDeepSecond, "deepstack_merger_list.{}.linear_fc2.weight"},
    {VisionRole::kDeepSecondBias, "deepstack_merger_list.{}.linear_fc2.bias"},
};

Result<Activation> ReadVisionActivation(const ConfigJson& config, std::string_view key, std::string_view otherwise) {
  ModelSpec read;
  RETURN_IF_ERROR(ReadActivation(config, key, otherwise, &read));
  return read.activation;
}

/// An MLP without a gate, whose activation is quick GELU unless the file names another.
Status ReadPlainMlp(const ConfigJson& vision, VisionSpec* spec) {
  spec->gated = false;
  spec->quick_gelu = vision.String("hidden_act", "quick_gelu") == "quick_gelu";
  if (spec->quick_gelu) return Status::Ok();
  ASSIGN_OR_RETURN(spec->activation, ReadVisionActivation(vision, "hidden_act", "gelu"));
  return Status::Ok();
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
  spec->biases = true;
  RETURN_IF_ERROR(ReadPlainMlp(vision, spec));
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

// SigLIP (Zhai et al. 2023) over a square picture; the mean of k x k patches is a token (Gemma Team 2025).
Status ReadGemma3(const FlatJson& config, VisionSpec* spec) {
  const ConfigJson top(config), vision(config, "vision_config.");
  *spec = {.layers = 12, .hidden = 768, .heads = 12, .ffn = 3072, .patch = 16};
  RETURN_IF_ERROR(ReadTowerSizes(vision, spec));
  spec->norm_eps = 1e-6f;
  RETURN_IF_ERROR(vision.Optional("layer_norm_eps", &spec->norm_eps));
  ASSIGN_OR_RETURN(spec->activation, ReadVisionActivation(vision, "hidden_act", "gelu_pytorch_tanh"));
  SetGemma3Traits(spec);
  RETURN_IF_ERROR(vision.Optional("image_size", &spec->preprocessing.edge));
  int64_t tokens = 256;
  RETURN_IF_ERROR(top.Optional("mm_tokens_per_image", &tokens));
  const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(tokens)));
  if (side < 1 || spec->patch < 1 || side * side != tokens || spec->preprocessing.edge % (side * spec->patch) != 0) {
    return InvalidArgument(
        fmt::format("mm_tokens_per_image {} does not divide pictures of {} pixels", tokens, spec->preprocessing.edge));
  }
  spec->merge = spec->preprocessing.edge / (side * spec->patch);
  return Status::Ok();
}

/// The sizes of Qwen2-VL and later. REQUIRES: `spec` has the family's defaults.
Status ReadQwen(const ConfigJson& vision, VisionSpec* spec) {
  RETURN_IF_ERROR(vision.Optional("depth", &spec->layers));
  RETURN_IF_ERROR(vision.Optional("num_heads", &spec->heads));
  RETURN_IF_ERROR(ReadTowerSizes(vision, spec));
  spec->frames = 2;
  RETURN_IF_ERROR(vision.Optional("spatial_merge_size", &spec->merge));
  RETURN_IF_ERROR(vision.Optional("temporal_patch_size", &spec->frames));
  return vision.Optional("rope_parameters.rope_theta", &spec->rope_theta);
}

/// Appends a list of layers.
Status ReadLayers(const ConfigJson& config, std::string_view key, const VisionSpec& spec,
                  std::vector<int64_t>* layers) {
  for (int64_t i = 0; i < spec.layers; ++i) {
    const std::string name = fmt::format("{}.{}", key, i);
    if (!config.Has(name)) break;
    RETURN_IF_ERROR(config.Optional(name, &layers->emplace_back()));
  }
  return Status::Ok();
}

/// The areas of the first processors. REQUIRES: a token's size.
void SetFirstAreas(VisionSpec* spec) {
  const int64_t token = spec->token_pixels() * spec->token_pixels();
  spec->preprocessing.least_pixels = 4 * token;
  spec->preprocessing.most_pixels = 1280 * token;
}

// Here 'hidden_size' is that of the text network.
Status ReadQwen2(const FlatJson& config, VisionSpec* spec) {
  const ConfigJson vision(config, "vision_config.");
  *spec = {.layers = 32, .heads = 16, .patch = 14};
  SetQwenTraits(spec);
  spec->norm = NormKind::kLayer;
  RETURN_IF_ERROR(ReadQwen(vision, spec));
  SetFirstAreas(spec);
  spec->hidden = 1280;
  RETURN_IF_ERROR(vision.Optional("embed_dim", &spec->hidden));
  spec->head_dim = spec->hidden / spec->heads;
  double ratio = 4;
  RETURN_IF_ERROR(vision.Optional("mlp_ratio", &ratio));
  if (!(ratio > 0 && ratio <= 64)) return InvalidArgument(fmt::format("vision_config: 'mlp_ratio' is {}", ratio));
  spec->ffn = static_cast<int64_t>(static_cast<double>(spec->hidden) * ratio);
  return ReadPlainMlp(vision, spec);
}

Status ReadQwen25(const FlatJson& config, VisionSpec* spec) {
  const ConfigJson vision(config, "vision_config.");
  *spec = {.layers = 32, .hidden = 3584, .heads = 16, .ffn = 3420, .patch = 14};
  SetQwenTraits(spec);
  RETURN_IF_ERROR(ReadQwen(vision, spec));
  SetFirstAreas(spec);
  ASSIGN_OR_RETURN(spec->activation, ReadVisionActivation(vision, "hidden_act", "silu"));
  int64_t window = 112;
  RETURN_IF_ERROR(vision.Optional("window_size", &window));
  spec->window = std::max<int64_t>(window, 0) / std::max<int64_t>(spec->token_pixels(), 1);
  if (spec->window < 1) return InvalidArgument(fmt::format("vision_config: 'window_size' is {}", window));
  if (!vision.Has("fullatt_block_indexes.0")) {
    for (int64_t layer = 7; layer < spec->layers; layer += 8) spec->whole_layers.push_back(layer);
  }
  return ReadLayers(vision, "fullatt_block_indexes", *spec, &spec->whole_layers);
}

// As Qwen2.5-VL, without windows, with learned positions besides (Qwen Team 2025). Qwen3.5 has no deep layers.
Status ReadQwen35(const FlatJson& config, VisionSpec* spec) {
  const ConfigJson vision(config, "vision_config.");
  *spec = {.layers = 27, .hidden = 1152, .heads = 16, .ffn = 4304, .patch = 16};
  int64_t positions = 2304;
  RETURN_IF_ERROR(vision.Optional("num_position_embeddings", &positions));
  RETURN_IF_ERROR(SetQwen3Traits(positions, spec));
  ASSIGN_OR_RETURN(spec->activation, ReadVisionActivation(vision, "hidden_act", "gelu_pytorch_tanh"));
  return ReadQwen(vision, spec);
}

Status ReadQwen3(const FlatJson& config, VisionSpec* spec) {
  const ConfigJson vision(config, "vision_config.");
  RETURN_IF_ERROR(ReadQwen35(config, spec));
  if (!vision.Has("deepstack_visual_indexes.0")) spec->deep_layers = {8, 16, 24};
  return ReadLayers(vision, "deepstack_visual_indexes", *spec, &spec->deep_layers);
}

constexpr VisionPart kPixtralParts[] = {{kPixtral, "patch_conv.weight"},
                                        {kProjector, "multi_modal_projector.linear_1.weight"}};
constexpr std::string_view kClipKnown = "embeddings.patch_embedding.weight",
                           kClipLayersKnown = "encoder.layers.0.layer_norm1.weight";
constexpr VisionPart kQwen3Part = {kQwen3, "patch_embed.proj.weight"};
constexpr VisionFamily kFamilies[] = {
    {"qwen3_vl", "", ReadQwen3, {kQwen3Part}},
    {"qwen3_vl_moe", "", ReadQwen3, {kQwen3Part}},
    {"qwen3_5", "", ReadQwen35, {kQwen3Part}},
    {"qwen3_5_moe", "", ReadQwen35, {kQwen3Part}},
    {"qwen2_vl", "", ReadQwen2, {VisionPart{kQwen2, "patch_embed.proj.weight"}}},
    {"qwen2_5_vl", "", ReadQwen25, {VisionPart{kQwen25, "patch_embed.proj.weight"}}},
    {"mistral3", "pixtral", ReadMistral3, {kPixtralParts[0], kPixtralParts[1]}},
    {"llava", "pixtral", ReadPixtral, {kPixtralParts[0], kPixtralParts[1]}},
    {"llava",
     "clip_vision_model",
     ReadClip,
     {VisionPart{kClip, kClipKnown}, VisionPart{kClipLayers, kClipLayersKnown}, kPixtralParts[1]}},
    {"gemma3",
     "siglip_vision_model",
     ReadGemma3,
     {VisionPart{kSiglip, kClipKnown}, VisionPart{kClipLayers, kClipLayersKnown},
      VisionPart{kGemma3Projector, "multi_modal_projector.mm_input_projection_weight"}}},
};

/// The filter, and the values' normalisation.
Status ReadColors(const ConfigJson& file, VisionPreprocessing* to) {
  int64_t filter = to->resampling == Resampling::kBicubic ? 3 : 2;
  RETURN_IF_ERROR(file.Optional("resample", &filter));
  if (filter != 2 && filter != 3)
    return InvalidArgument(fmt::format("'resample' is {}; 2 and 3 are supported", filter));
  to->resampling = filter == 3 ? Resampling::kBicubic : Resampling::kBilinear;
  for (size_t channel = 0; channel < 3; ++channel) {
    RETURN_IF_ERROR(file.Optional(fmt::format("image_mean.{}", channel), &to->mean[channel]));
    RETURN_IF_ERROR(file.Optional(fmt::format("image_std.{}", channel), &to->deviation[channel]));
  }
  return Status::Ok();
}

/// Settings of the image processor, under a prefix that depends on the file's version.
Status ReadProcessor(const ConfigJson& file, VisionSpec* spec) {
  VisionPreprocessing& to = spec->preprocessing;
  if (to.fit == PictureFit::kArea) {
    for (const char* key : {"size.shortest_edge", "min_pixels"}) RETURN_IF_ERROR(file.Optional(key, &to.least_pixels));
    for (const char* key : {"size.longest_edge", "max_pixels"}) RETURN_IF_ERROR(file.Optional(key, &to.most_pixels));
    return ReadColors(file, &to);
  }
  const bool crops = to.fit == PictureFit::kCrop, square = to.fit == PictureFit::kSquare;
  RETURN_IF_ERROR(file.Optional(crops ? "size.shortest_edge" : square ? "size.height" : "size.longest_edge", &to.edge));
  int64_t crop = to.edge;
  if (crops) RETURN_IF_ERROR(file.Optional("crop_size.height", &crop));
  if (crop != to.edge) return InvalidArgument(fmt::format("pictures of {} pixels are cropped to {}", to.edge, crop));
  return ReadColors(file, &to);
}

/// The part of a tensor's name before `known`, for the only name that ends with it.
std::optional<std::string_view> FindPrefix(std::string_view known, std::span<const std::string_view> names) {
  const auto found = std::ranges::find_if(names, [&](std::string_view name) { return name.ends_with(known); });
  if (found == names.end()) return std::nullopt;
  return found->substr(0, found->size() - known.size());
}

}  // namespace

Result<std::optional<VisionPlan>> PlanVision(const FlatJson& config, std::span<const FlatJson> processors,
                                             std::span<const std::string_view> tensor_names, int64_t text_hidden) {
  const std::string wrapper = config.String("model_type").value_or(""),
                    tower = config.String("vision_config.model_type").value_or("");
  const auto* family = std::ranges::find_if(kFamilies, [&](const VisionFamily& one) {
    return one.wrapper == wrapper && (one.tower.empty() || one.tower == tower);
  });
  if (family == std::end(kFamilies)) return std::optional<VisionPlan>();
  VisionPlan plan;
  std::vector<std::string_view> prefixes;
  for (const VisionPart& part : family->parts) {
    const auto prefix = FindPrefix(part.known, tensor_names);
    if (!part.rules.empty() && !prefix) return std::optional<VisionPlan>();
    prefixes.push_back(prefix.value_or(""));
  }
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
  for (size_t i = 0; i < prefixes.size(); ++i) PlanVisionTensors(family->parts[i].rules, prefixes[i], &plan);
  return std::optional(std::move(plan));
}

}  // namespace ringside
