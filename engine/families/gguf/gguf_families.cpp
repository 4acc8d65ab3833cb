#include "engine/families/gguf/gguf_families.h"

#include <algorithm>
#include <array>

namespace ringside {
namespace {

std::array<std::span<const GgufFamily>, 6> AllGgufFamilies() {
  return {GgufPlainFamilies(), GgufRecentFamilies(), GgufAlternatingFamilies(),
          GgufGemmaFamilies(), GgufHybridFamilies(), GgufLatentFamilies()};
}

Status ReadLeadingLayers(const GgufKeys& keys, ModelSpec* spec) {
  int64_t leading = 0, dense = 0;
  RETURN_IF_ERROR(keys.Optional("leading_dense_block_count", &leading));
  if (leading == 0) return Status::Ok();
  RETURN_IF_ERROR(keys.Need("feed_forward_length", &dense));
  if (leading < 0 || dense < 1) {
    return InvalidArgument(fmt::format("{} leading dense layers of width {} are not supported", leading, dense));
  }
  RETURN_IF_ERROR(MakeLayerTraits(spec));
  for (int64_t layer = 0; layer < std::min(leading, spec->layers); ++layer) {
    spec->layer_traits[static_cast<size_t>(layer)].dense_ffn = dense;
  }
  return Status::Ok();
}

}  // namespace

const GgufFamily* FindGgufFamily(std::string_view architecture) {
  for (const auto& families : AllGgufFamilies()) {
    const auto found = std::ranges::find(families, architecture, &GgufFamily::architecture);
    if (found != families.end()) return &*found;
  }
  return nullptr;
}

std::vector<std::string_view> GgufArchitectures() {
  std::vector<std::string_view> names;
  for (const auto& families : AllGgufFamilies()) {
    for (const GgufFamily& family : families) names.push_back(family.architecture);
  }
  std::ranges::sort(names);
  return names;
}

void KeepWindows(bool (*slides)(int64_t layer), ModelSpec* spec) {
  for (size_t layer = 0; layer < spec->layer_traits.size(); ++layer) {
    if (!slides(static_cast<int64_t>(layer))) spec->layer_traits[layer].window = 0;
  }
}

Status ReadWindowPattern(const GgufKeys& keys, int64_t period, bool full_first, ModelSpec* spec) {
  const std::string_view key = "attention.sliding_window_pattern";
  std::vector<int64_t> pattern;  // whether each layer has a window; or the same period for all
  RETURN_IF_ERROR(keys.Optional(key, spec->layers, &pattern));
  const bool listed = keys.HasList(key);
  if (!pattern.empty() && !listed) period = pattern.front();
  if (period < 1) {
    return InvalidArgument(fmt::format("the file's '{}' is {}; it must be at least 1", keys.Name(key), period));
  }
  for (size_t layer = 0; layer < spec->layer_traits.size(); ++layer) {
    const int64_t in_period = static_cast<int64_t>(layer) % period;
    const bool windowed = listed ? pattern[layer] != 0 : in_period != (full_first ? 0 : period - 1);
    if (!windowed) spec->layer_traits[layer].window = 0;
  }
  return Status::Ok();
}

void RotateWindows(ModelSpec* spec) {
  for (LayerTraits& layer : spec->layer_traits) layer.rotation = layer.window > 0 ? 0 : -1;
}

Status ReadGgufMixture(const GgufKeys& keys, MixtureDefaults defaults, ModelSpec* spec) {
  if (spec->experts == 0) return Status::Ok();
  int64_t shared = 0, gating = defaults.sigmoid ? 2 : 1;
  RETURN_IF_ERROR(keys.Optional("expert_shared_count", &shared));
  if (shared < 0 || shared > 64 || spec->ffn < 1 || spec->ffn > 1 << 20) {
    return InvalidArgument(fmt::format("{} shared experts of width {} are not supported", shared, spec->ffn));
  }
  spec->common_ffn = shared * spec->ffn;
  RETURN_IF_ERROR(keys.Optional("expert_shared_feed_forward_length", &spec->common_ffn));
  RETURN_IF_ERROR(ReadLeadingLayers(keys, spec));
  RETURN_IF_ERROR(keys.Optional("expert_gating_func", &gating));
  if (gating != 1 && gating != 2) {
    return InvalidArgument(fmt::format("the file's '{}' {} is not supported", keys.Name("expert_gating_func"), gating));
  }
  RouterTraits& router = spec->router;
  router.sigmoid = gating == 2;
  spec->experts_normalised = defaults.normalised;
  RETURN_IF_ERROR(keys.Optional("expert_weights_norm", &spec->experts_normalised));
  RETURN_IF_ERROR(keys.Optional("expert_weights_scale", &router.scale));
  if (router.scale == 0) router.scale = 1;
  RETURN_IF_ERROR(keys.Optional("expert_group_count", &router.groups));
  RETURN_IF_ERROR(keys.Optional("expert_group_used_count", &router.groups_used));
  if (router.groups == 0) router.groups = router.groups_used = 1;
  return Status::Ok();
}

Status ReadTemperature(const GgufKeys& keys, ModelSpec* spec) {
  RETURN_IF_ERROR(keys.Optional("attention.temperature_scale", &spec->position_scale));
  if (spec->position_scale == 0) return Status::Ok();
  RETURN_IF_ERROR(keys.Optional("rope.scaling.original_context_length", &spec->position_scale_context));
  return keys.Optional("attention.temperature_length", &spec->position_scale_context);
}

// As in huggingface_llama.cpp: the whole residual stream is divided by the residual scale.
Status ReadGraniteScales(const GgufKeys& keys, ModelSpec* spec) {
  double embedding = 1, residual = 1, logits = 1;
  RETURN_IF_ERROR(keys.Optional("embedding_scale", &embedding));
  RETURN_IF_ERROR(keys.Optional("residual_scale", &residual));
  RETURN_IF_ERROR(keys.Optional("logit_scale", &logits));
  RETURN_IF_ERROR(keys.Optional("attention.scale", &spec->query_scale));
  spec->embedding_scale = static_cast<float>(embedding / residual);
  spec->norm_eps = static_cast<float>(static_cast<double>(spec->norm_eps) / (residual * residual));
  spec->logit_scale = static_cast<float>(1 / logits);
  return Status::Ok();
}

}  // namespace ringside
