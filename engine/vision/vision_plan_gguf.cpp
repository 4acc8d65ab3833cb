// Vision towers in llama.cpp's GGUF files (mmproj).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "engine/vision/vision_plan.h"
#include "engine/vision/vision_tensors.h"

namespace ringside {
namespace {

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

constexpr VisionRule kGgufGemma3[] = {
    {VisionRole::kPatch, "v.patch_embd.weight"},
    {VisionRole::kPatchBias, "v.patch_embd.bias"},
    {VisionRole::kPositions, "v.position_embd.weight"},
    {VisionRole::kNorm, "v.blk.{}.ln1.weight"},
    {VisionRole::kNormBias, "v.blk.{}.ln1.bias"},
    {VisionRole::kQuery, "v.blk.{}.attn_q.weight"},
    {VisionRole::kKey, "v.blk.{}.attn_k.weight"},
    {VisionRole::kValue, "v.blk.{}.attn_v.weight"},
    {VisionRole::kQueryBias, "v.blk.{}.attn_q.bias"},
    {VisionRole::kKeyBias, "v.blk.{}.attn_k.bias"},
    {VisionRole::kValueBias, "v.blk.{}.attn_v.bias"},
    {VisionRole::kOut, "v.blk.{}.attn_out.weight"},
    {VisionRole::kOutBias, "v.blk.{}.attn_out.bias"},
    {VisionRole::kMlpNorm, "v.blk.{}.ln2.weight"},
    {VisionRole::kMlpNormBias, "v.blk.{}.ln2.bias"},
    {VisionRole::kUp, "v.blk.{}.ffn_up.weight"},
    {VisionRole::kUpBias, "v.blk.{}.ffn_up.bias"},
    {VisionRole::kDown, "v.blk.{}.ffn_down.weight"},
    {VisionRole::kDownBias, "v.blk.{}.ffn_down.bias"},
    {VisionRole::kOutputNorm, "v.post_ln.weight"},
    {VisionRole::kOutputNormBias, "v.post_ln.bias"},
    {VisionRole::kProjectorNorm, "mm.soft_emb_norm.weight"},
    {VisionRole::kProjection, "mm.input_projection.weight"},
};

constexpr VisionRule kGgufQwen2[] = {
    {VisionRole::kPatchMore, "v.patch_embd.weight.1"},
    {VisionRole::kPatch, "v.patch_embd.weight"},
    {VisionRole::kNorm, "v.blk.{}.ln1.weight"},
    {VisionRole::kNormBias, "v.blk.{}.ln1.bias"},
    {VisionRole::kQuery, "v.blk.{}.attn_q.weight"},
    {VisionRole::kKey, "v.blk.{}.attn_k.weight"},
    {VisionRole::kValue, "v.blk.{}.attn_v.weight"},
    {VisionRole::kQueryBias, "v.blk.{}.attn_q.bias"},
    {VisionRole::kKeyBias, "v.blk.{}.attn_k.bias"},
    {VisionRole::kValueBias, "v.blk.{}.attn_v.bias"},
    {VisionRole::kOut, "v.blk.{}.attn_out.weight"},
    {VisionRole::kOutBias, "v.blk.{}.attn_out.bias"},
    {VisionRole::kMlpNorm, "v.blk.{}.ln2.weight"},
    {VisionRole::kMlpNormBias, "v.blk.{}.ln2.bias"},
    {VisionRole::kUp, "v.blk.{}.ffn_up.weight"},
    {VisionRole::kUpBias, "v.blk.{}.ffn_up.bias"},
    {VisionRole::kDown, "v.blk.{}.ffn_down.weight"},
    {VisionRole::kDownBias, "v.blk.{}.ffn_down.bias"},
    {VisionRole::kProjectorNorm, "v.post_ln.weight"},
    {VisionRole::kProjectorNormBias, "v.post_ln.bias"},
    {VisionRole::kFirst, "mm.0.weight"},
    {VisionRole::kFirstBias, "mm.0.bias"},
    {VisionRole::kSecond, "mm.2.weight"},
    {VisionRole::kSecondBias, "mm.2.bias"},
};

constexpr VisionRule kGgufQwen25[] = {
    {VisionRole::kPatchMore, "v.patch_embd.weight.1"},
    {VisionRole::kPatch, "v.patch_embd.weight"},
    {VisionRole::kNorm, "v.blk.{}.ln1.weight"},
    {VisionRole::kQuery, "v.blk.{}.attn_q.weight"},
    {VisionRole::kKey, "v.blk.{}.attn_k.weight"},
    {VisionRole::kValue, "v.blk.{}.attn_v.weight"},
    {VisionRole::kQueryBias, "v.blk.{}.attn_q.bias"},
    {VisionRole::kKeyBias, "v.blk.{}.attn_k.bias"},
    {VisionRole::kValueBias, "v.blk.{}.attn_v.bias"},
    {VisionRole::kOut, "v.blk.{}.attn_out.weight"},
    {VisionRole::kOutBias, "v.blk.{}.attn_out.bias"},
    {VisionRole::kMlpNorm, "v.blk.{}.ln2.weight"},
    {VisionRole::kGate, "v.blk.{}.ffn_gate.weight"},
    {VisionRole::kGateBias, "v.blk.{}.ffn_gate.bias"},
    {VisionRole::kUp, "v.blk.{}.ffn_up.weight"},
    {VisionRole::kUpBias, "v.blk.{}.ffn_up.bias"},
    {VisionRole::kDown, "v.blk.{}.ffn_down.weight"},
    {VisionRole::kDownBias, "v.blk.{}.ffn_down.bias"},
    {VisionRole::kProjectorNorm, "v.post_ln.weight"},
    {VisionRole::kFirst, "mm.0.weight"},
    {VisionRole::kFirstBias, "mm.0.bias"},
    {VisionRole::kSecond, "mm.2.weight"},
    {VisionRole::kSecondBias, "mm.2.bias"},
};

constexpr VisionRule kGgufQwen3[] = {
    {VisionRole::kPatchMore, "v.patch_embd.weight.1"},
    {VisionRole::kPatch, "v.patch_embd.weight"},
    {VisionRole::kPatchBias, "v.patch_embd.bias"},
    {VisionRole::kPositions, "v.position_embd.weight"},
    {VisionRole::kNorm, "v.blk.{}.ln1.weight"},
    {VisionRole::kNormBias, "v.blk.{}.ln1.bias"},
    {VisionRole::kQkv, "v.blk.{}.attn_qkv.weight"},
    {VisionRole::kQkvBias, "v.blk.{}.attn_qkv.bias"},
    {VisionRole::kOut, "v.blk.{}.attn_out.weight"},
    {VisionRole::kOutBias, "v.blk.{}.attn_out.bias"},
    {VisionRole::kMlpNorm, "v.blk.{}.ln2.weight"},
    {VisionRole::kMlpNormBias, "v.blk.{}.ln2.bias"},
    {VisionRole::kUp, "v.blk.{}.ffn_up.weight"},
    {VisionRole::kUpBias, "v.blk.{}.ffn_up.bias"},
    {VisionRole::kDown, "v.blk.{}.ffn_down.weight"},
    {VisionRole::kDownBias, "v.blk.{}.ffn_down.bias"},
    {VisionRole::kProjectorNorm, "v.post_ln.weight"},
    {VisionRole::kProjectorNormBias, "v.post_ln.bias"},
    {VisionRole::kFirst, "mm.0.weight"},
    {VisionRole::kFirstBias, "mm.0.bias"},
    {VisionRole::kSecond, "mm.2.weight"},
    {VisionRole::kSecondBias, "mm.2.bias"},
    {VisionRole::kDeepNorm, "v.deepstack.{layer}.norm.weight"},
    {VisionRole::kDeepNormBias, "v.deepstack.{layer}.norm.bias"},
    {VisionRole::kDeepFirst, "v.deepstack.{layer}.fc1.weight"},
    {VisionRole::kDeepFirstBias, "v.deepstack.{layer}.fc1.bias"},
    {VisionRole::kDeepSecond, "v.deepstack.{layer}.fc2.weight"},
    {VisionRole::kDeepSecondBias, "v.deepstack.{layer}.fc2.bias"},
};

Status NeedInt(const GgufFile& file, std::string_view key, int64_t* value) {
  const auto found = file.Int(key);
  if (!found) return InvalidArgument(fmt::format("'{}' is missing", key));
  *value = *found;
  return Status::Ok();
}

/// The sizes that all towers have, and the pictures' normalisation. REQUIRES: `spec` has the family's defaults.
Status ReadGgufTower(const GgufFile& file, VisionSpec* spec) {
  const std::pair<const char*, int64_t*> sizes[] = {
      {"clip.vision.block_count", &spec->layers},         {"clip.vision.embedding_length", &spec->hidden},
      {"clip.vision.attention.head_count", &spec->heads}, {"clip.vision.feed_forward_length", &spec->ffn},
      {"clip.vision.patch_size", &spec->patch},           {"clip.vision.image_size", &spec->preprocessing.edge}};
  for (const auto& [key, size] : sizes) RETURN_IF_ERROR(NeedInt(file, key, size));
  if (spec->heads < 1) return InvalidArgument("'clip.vision.attention.head_count' must be at least 1");
  spec->head_dim = spec->hidden / spec->heads;
  spec->norm_eps = static_cast<float>(file.Float("clip.vision.attention.layer_norm_epsilon").value_or(spec->norm_eps));
  const auto mean = file.Floats("clip.vision.image_mean"), deviation = file.Floats("clip.vision.image_std");
  for (size_t channel = 0; mean && deviation && mean->size() == 3 && deviation->size() == 3 && channel < 3; ++channel) {
    spec->preprocessing.mean[channel] = static_cast<float>((*mean)[channel]);
    spec->preprocessing.deviation[channel] = static_cast<float>((*deviation)[channel]);
  }
  return Status::Ok();
}

Status ReadGgufPixtral(const GgufFile& file, const ModelSpec& text, VisionSpec* spec) {
  RETURN_IF_ERROR(ReadGgufTower(file, spec));
  spec->rope_pairs = RopePairs::kAdjacent;  // the converter reorders queries and keys
  const bool silu = file.Bool("clip.use_silu").value_or(false);
  spec->activation = silu ? Activation::kSilu : Activation::kGeluErf;
  const auto has = [&](std::string_view name) {
    return std::ranges::count(file.tensors(), name, &FileTensor::name) > 0;
  };
  spec->projector_norm = has("mm.input_norm.weight");
  spec->projector_biases = has("mm.1.bias");
  spec->projector_eps = text.norm_eps;
  spec->merge = file.Int("clip.vision.spatial_merge_size").value_or(1);
  spec->markers = {.placeholder = "[IMG]", .row_end = "[IMG_BREAK]", .end = "[IMG_END]"};
  return Status::Ok();
}

Status ReadGgufGemma3(const GgufFile& file, const ModelSpec&, VisionSpec* spec) {
  spec->norm_eps = 1e-6f;
  SetGemma3Traits(spec);
  RETURN_IF_ERROR(ReadGgufTower(file, spec));
  spec->projector_eps = spec->norm_eps;
  spec->projector_norm_offset = 0;  // the converter adds it
  spec->activation = Activation::kGeluTanh;
  spec->merge = file.Int("clip.vision.projector.scale_factor").value_or(4);
  return Status::Ok();
}

/// The sizes of Qwen2-VL and later. REQUIRES: `spec` has the family's traits.
Status ReadGgufQwen(const GgufFile& file, VisionSpec* spec) {
  RETURN_IF_ERROR(ReadGgufTower(file, spec));
  spec->projector_eps = spec->norm_eps;
  spec->merge = file.Int("clip.vision.spatial_merge_size").value_or(2);
  spec->preprocessing.least_pixels =
      file.Int("clip.vision.image_min_pixels").value_or(spec->preprocessing.least_pixels);
  spec->preprocessing.most_pixels = file.Int("clip.vision.image_max_pixels").value_or(spec->preprocessing.most_pixels);
  spec->markers = {.placeholder = "<|image_pad|>"};
  return Status::Ok();
}

/// The areas of the first published models, whose files have none.
void SetPublishedAreas(VisionSpec* spec) {
  spec->preprocessing.least_pixels = 4 * 28 * 28;
  spec->preprocessing.most_pixels = 16384 * 28 * 28;
}

Status ReadGgufQwen2(const GgufFile& file, const ModelSpec&, VisionSpec* spec) {
  SetQwenTraits(spec);
  spec->norm = NormKind::kLayer;
  spec->gated = false;
  SetPublishedAreas(spec);
  RETURN_IF_ERROR(ReadGgufQwen(file, spec));
  const bool silu = file.Bool("clip.use_silu").value_or(false), gelu = file.Bool("clip.use_gelu").value_or(false);
  spec->quick_gelu = !silu && !gelu;
  spec->activation = silu ? Activation::kSilu : Activation::kGeluErf;
  // The converters store another number as the MLP's width.
  const auto down = std::ranges::find(file.tensors(), "v.blk.0.ffn_down.weight", &FileTensor::name);
  if (down == file.tensors().end() || down->shape.size() != 2) {
    return InvalidArgument("tensor 'v.blk.0.ffn_down.weight' is missing or no matrix");
  }
  spec->ffn = down->shape[0] == spec->hidden ? down->shape[1] : down->shape[0];
  return Status::Ok();
}

Status ReadGgufQwen25(const GgufFile& file, const ModelSpec&, VisionSpec* spec) {
  SetQwenTraits(spec);
  spec->activation = Activation::kSilu;
  SetPublishedAreas(spec);
  RETURN_IF_ERROR(ReadGgufQwen(file, spec));
  const int64_t window = file.Int("clip.vision.window_size").value_or(112),
                period = file.Int("clip.vision.n_wa_pattern").value_or(8), token = spec->token_pixels();
  if (token < 1 || window < token || period < 1) {
    return InvalidArgument(
        fmt::format("the vision tower's window is {} pixels in all but every {}th layer", window, period));
  }
  spec->window = window / token;
  for (int64_t layer = period - 1; layer < spec->layers; layer += period) spec->whole_layers.push_back(layer);
  return Status::Ok();
}

Status ReadGgufQwen3(const GgufFile& file, const ModelSpec&, VisionSpec* spec) {
  const auto positions = std::ranges::find(file.tensors(), "v.position_embd.weight", &FileTensor::name);
  if (positions == file.tensors().end() || positions->shape.empty()) {
    return InvalidArgument("tensor 'v.position_embd.weight' is missing");
  }
  RETURN_IF_ERROR(SetQwen3Traits(positions->shape.front(), spec));
  RETURN_IF_ERROR(ReadGgufQwen(file, spec));
  const auto deep = file.Ints("clip.vision.is_deepstack_layers");
  for (size_t layer = 0; deep && layer < deep->size(); ++layer) {
    if ((*deep)[layer] != 0) spec->deep_layers.push_back(static_cast<int64_t>(layer));
  }
  return Status::Ok();
}

struct GgufProjector {
  std::string_view name;  // clip.projector_type
  std::string_view family;
  Status (*read)(const GgufFile& file, const ModelSpec& text, VisionSpec* spec);
  std::span<const VisionRule> rules;
};
constexpr GgufProjector kProjectors[] = {
    {"pixtral", "pixtral", ReadGgufPixtral, kGgufPixtral},
    {"gemma3", "siglip_vision_model", ReadGgufGemma3, kGgufGemma3},
    {"qwen2vl_merger", "qwen2_vl", ReadGgufQwen2, kGgufQwen2},
    {"qwen2.5vl_merger", "qwen2_5_vl", ReadGgufQwen25, kGgufQwen25},
    {"qwen3vl_merger", "qwen3_vl", ReadGgufQwen3, kGgufQwen3},
};

/// The first converters exchanged the names of an MLP's matrices.
void RenameExchangedMlp(const GgufFile& file, VisionPlan* plan) {
  const auto down = std::ranges::find(file.tensors(), "v.blk.0.ffn_down.weight", &FileTensor::name);
  const VisionSpec& spec = plan->spec;
  const std::vector<int64_t> exchanged = {spec.ffn, spec.hidden};
  if (spec.gated || spec.ffn == spec.hidden || down == file.tensors().end() || down->shape != exchanged) return;
  for (PlannedVisionTensor& tensor : plan->tensors) {
    for (const auto& [one, other] :
         {std::pair<std::string_view, std::string_view>{".ffn_up.", ".ffn_down."}, {".ffn_down.", ".ffn_up."}}) {
      const size_t at = tensor.name.find(one);
      if (at == tensor.name.npos) continue;
      tensor.name.replace(at, one.size(), other);
      break;
    }
  }
}

}  // namespace

Result<VisionPlan> PlanGgufVision(const GgufFile& file, const ModelSpec& text) {
  std::string projector = file.String("clip.projector_type").value_or("");
  if (projector.empty()) projector = file.String("clip.vision.projector_type").value_or("");
  const auto* known = std::ranges::find(kProjectors, projector, &GgufProjector::name);
  if (file.String("general.architecture") != "clip" || known == std::end(kProjectors)) {
    std::vector<std::string_view> names;
    std::ranges::transform(kProjectors, std::back_inserter(names), &GgufProjector::name);
    return InvalidArgument(
        fmt::format("the projector '{}' is not supported; these are: {}", projector, fmt::join(names, ", ")));
  }
  VisionPlan plan;
  plan.spec.family = known->family;
  plan.spec.text_hidden = text.hidden;
  RETURN_IF_ERROR(known->read(file, text, &plan.spec));
  RETURN_IF_ERROR(FinishVisionSpec(&plan.spec));
  PlanVisionTensors(known->rules, "", &plan);
  RenameExchangedMlp(file, &plan);
  return plan;
}

}  // namespace ringside
