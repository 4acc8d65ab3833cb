#include "engine/vision/vision_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ringside {
namespace {

constexpr int64_t kMaxPatches = 16384, kMaxSize = 1 << 16, kMaxLayers = 256;

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
  if (spec.preprocessing.fit == PictureFit::kArea) {
    const int64_t token = spec.token_pixels() * spec.token_pixels();
    RETURN_IF_ERROR(check("largest picture", spec.preprocessing.most_pixels / token, kMaxPatches));
    RETURN_IF_ERROR(check("smallest picture", spec.preprocessing.least_pixels, spec.preprocessing.most_pixels));
    RETURN_IF_ERROR(check("number of frames", spec.frames, 8));
  } else {
    RETURN_IF_ERROR(check("picture size", spec.preprocessing.edge, kMaxSize));
  }
  if (spec.window != 0) RETURN_IF_ERROR(check("window", spec.window, 256));
  if (spec.table_side != 0) RETURN_IF_ERROR(check("side of learned positions", spec.table_side, 256));
  for (size_t i = 0; i < spec.deep_layers.size(); ++i) {
    const int64_t layer = spec.deep_layers[i], least = i == 0 ? 0 : spec.deep_layers[i - 1] + 1;
    if (layer < least || layer >= spec.layers) {
      return InvalidArgument(
          fmt::format("the vision tower's projected layer {} is not one of its {} in order", layer, spec.layers));
    }
  }
  // Axial rotation divides a head's pairs between rows and columns.
  if (spec.head_dim % 4 != 0) return InvalidArgument("the vision tower's head size must be a multiple of 4");
  RETURN_IF_ERROR(check("largest number of patches", spec.most_patches(), kMaxPatches));
  if (spec.positions == VisionPositions::kLearned && spec.preprocessing.edge % spec.token_pixels() != 0) {
    return InvalidArgument("the vision tower's picture size must be a multiple of its patch size, and of a token's");
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
Shape OfQkv(const VisionSpec& spec) { return {3 * spec.heads * spec.head_dim}; }
Shape FromHidden(const VisionSpec& spec) { return {spec.heads * spec.head_dim, spec.hidden}; }
Shape OfMlp(const VisionSpec& spec) { return {spec.ffn, spec.hidden}; }
Shape OfJoined(const VisionSpec& spec) { return {spec.joined()}; }
Shape FromJoined(const VisionSpec& spec) { return {spec.projected(), spec.joined()}; }
Shape ToText(const VisionSpec& spec) { return {spec.text_hidden, spec.projected()}; }
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
       if (spec.frames > 1) return Shape{spec.hidden, 3, spec.frames, spec.patch, spec.patch};
       return Shape{spec.hidden, 3, spec.patch, spec.patch};
     }},
    {VisionRole::kPatchMore,
     [](const VisionSpec& spec) {
       return Shape{spec.hidden, 3, spec.patch, spec.patch};
     }},
    {VisionRole::kPatchBias, OfHidden},
    {VisionRole::kClass, OfHidden},
    {VisionRole::kPositions,
     [](const VisionSpec& spec) {
       if (spec.table_side > 0) return Shape{spec.table_side * spec.table_side, spec.hidden};
       return Shape{spec.grid * spec.grid + (spec.class_token ? 1 : 0), spec.hidden};
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
    {VisionRole::kQkv,
     [](const VisionSpec& spec) {
       return Shape{3 * spec.heads * spec.head_dim, spec.hidden};
     }},
    {VisionRole::kQkvBias, OfQkv},
    {VisionRole::kOutBias, OfHidden},
    {VisionRole::kMlpNorm, OfHidden},
    {VisionRole::kMlpNormBias, OfHidden},
    {VisionRole::kGate, OfMlp},
    {VisionRole::kUp, OfMlp},
    {VisionRole::kDown,
     [](const VisionSpec& spec) {
       return Shape{spec.hidden, spec.ffn};
     }},
    {VisionRole::kGateBias, [](const VisionSpec& spec) { return Shape{spec.ffn}; }},
    {VisionRole::kUpBias, [](const VisionSpec& spec) { return Shape{spec.ffn}; }},
    {VisionRole::kDownBias, OfHidden},
    {VisionRole::kOutputNorm, OfHidden},
    {VisionRole::kOutputNormBias, OfHidden},
    {VisionRole::kProjectorNorm, OfHidden, HasProjectorNorm},
    {VisionRole::kProjectorNormBias, OfHidden, HasProjectorNorm},
    {VisionRole::kMerger,
     [](const VisionSpec& spec) {
       return Shape{spec.hidden, spec.hidden * spec.merge * spec.merge};
     },
     HasProjectorNorm},
    {VisionRole::kFirst, FromJoined},
    {VisionRole::kProjection,
     [](const VisionSpec& spec) {
       return Shape{spec.hidden, spec.text_hidden};
     }},
    {VisionRole::kFirstBias, [](const VisionSpec& spec) { return Shape{spec.projected()}; }, HasProjectorBiases},
    {VisionRole::kSecond, ToText},
    {VisionRole::kSecondBias, OfText, HasProjectorBiases},
    {VisionRole::kDeepNorm, OfJoined},
    {VisionRole::kDeepNormBias, OfJoined},
    {VisionRole::kDeepFirst, FromJoined},
    {VisionRole::kDeepFirstBias, OfJoined},
    {VisionRole::kDeepSecond, ToText},
    {VisionRole::kDeepSecondBias, OfText},
};

bool IsDeep(VisionRole role) { return role >= VisionRole::kDeepNorm && role <= VisionRole::kDeepSecondBias; }

}  // namespace

void PlanVisionTensors(std::span<const VisionRule> rules, std::string_view prefix, VisionPlan* plan) {
  for (int64_t layer = -1; layer < plan->spec.layers; ++layer) {
    for (const VisionRule& rule : rules) {
      std::string name = std::string(prefix) + std::string(rule.name);
      const bool by_layer = name.find("{layer}") != std::string::npos;
      const size_t at = name.find(by_layer ? "{layer}" : "{}");
      const RoleTraits& traits = *std::ranges::find(kRoles, rule.role, &RoleTraits::role);
      if ((at != std::string::npos) != (layer >= 0) || !traits.has(plan->spec)) continue;
      if (IsDeep(rule.role) && layer >= std::ssize(plan->spec.deep_layers)) continue;
      if (layer >= 0) {
        const int64_t number = by_layer ? plan->spec.deep_layers[static_cast<size_t>(layer)] : layer;
        name.replace(at, by_layer ? 7 : 2, std::to_string(number));
      }
      plan->tensors.push_back({rule.role, layer, std::move(name), traits.shape(plan->spec)});
    }
  }
}

void SetGemma3Traits(VisionSpec* spec) {
  spec->norm = NormKind::kLayer;
  spec->gated = false;
  spec->biases = true;
  spec->positions = VisionPositions::kLearned;
  spec->averages = spec->projector_norm = true;
  spec->projector_mlp = false;
  spec->projector_norm_offset = 1;
  spec->projector_eps = spec->norm_eps;
  spec->preprocessing = {.fit = PictureFit::kSquare,
                         .resampling = Resampling::kBilinear,
                         .edge = 224,
                         .mean = {0.5f, 0.5f, 0.5f},
                         .deviation = {0.5f, 0.5f, 0.5f}};
  spec->see_all = true;
  spec->markers = {
      .placeholder = "<start_of_image>", .around = "\n\n", .begin = "<start_of_image>", .end = "<end_of_image>"};
}

void SetQwenTraits(VisionSpec* spec) {
  spec->merge = 2;
  spec->norm_eps = spec->projector_eps = 1e-6f;
  spec->biases = true;
  spec->positions = VisionPositions::kSplitRotary;
  spec->joins = spec->projector_norm = spec->projector_biases = true;
  spec->preprocessing.fit = PictureFit::kArea;
  spec->grids = true;
}

Status SetQwen3Traits(int64_t positions, VisionSpec* spec) {
  SetQwenTraits(spec);
  spec->norm = NormKind::kLayer;
  spec->gated = false;
  spec->activation = Activation::kGeluTanh;
  spec->preprocessing.mean = spec->preprocessing.deviation = {0.5f, 0.5f, 0.5f};
  spec->preprocessing.least_pixels = 65536;
  spec->preprocessing.most_pixels = 16777216;
  spec->table_side = static_cast<int64_t>(std::sqrt(static_cast<double>(std::max<int64_t>(positions, 0))));
  if (spec->table_side > 0 && spec->table_side * spec->table_side == positions) return Status::Ok();
  return InvalidArgument(fmt::format("the vision tower has {} learned positions, which is not a square", positions));
}

Status FinishVisionSpec(VisionSpec* spec) {
  if (spec->preprocessing.fit == PictureFit::kArea) {
    // Larger pictures are reduced further than by the family's processor.
    const int64_t most = kMaxPatches * spec->patch * spec->patch;
    spec->preprocessing.most_pixels = std::min(spec->preprocessing.most_pixels, most);
  } else if (spec->patch > 0 && spec->merge > 0) {
    const int64_t unit = spec->token_pixels();
    spec->grid = (spec->preprocessing.edge + unit - 1) / unit * spec->merge;
  }
  return CheckVisionSpec(*spec);
}

}  // namespace ringside
