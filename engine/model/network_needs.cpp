#include "engine/model/network_needs.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/backend.h"

namespace ringside {

namespace {

/// A trait that needs an operation which not every device has.
struct Need {
  Feature feature;
  bool (*has)(const ModelSpec& spec);
  const char* what;
};
constexpr Need kNeeds[] = {
    {Feature::kLatentAttention, [](const ModelSpec& spec) { return spec.latent.rank > 0; },
     "multi-head latent attention"},
    {Feature::kVariedLayers, [](const ModelSpec& spec) { return !spec.varied_layers().empty(); },
     "attention heads that differ between layers"},
    {Feature::kVariedLayers, [](const ModelSpec& spec) { return spec.shares_keys(); },
     "layers that share keys and values"},
    {Feature::kStreams, [](const ModelSpec& spec) { return spec.streams.count > 0; }, "several residual streams"},
    {Feature::kGates, [](const ModelSpec& spec) { return spec.layer_inputs > 0; }, "per-layer embeddings"},
    {Feature::kScale, [](const ModelSpec& spec) { return spec.layer_scalar; }, "factors of its layers"},
    {Feature::kVariedLayers, [](const ModelSpec& spec) { return spec.heads_vary(); },
     "numbers of heads that differ between layers"},
    {Feature::kSeparateExperts, [](const ModelSpec& spec) { return spec.norm_after && spec.experts > 0; },
     "norms after a mixture of experts"},
    {Feature::kChunks,
     [](const ModelSpec& spec) {
       return std::ranges::any_of(spec.layer_traits, [](const LayerTraits& layer) { return layer.chunked; });
     },
     "attention in chunks"},
    {Feature::kRouterTraits, [](const ModelSpec& spec) { return spec.router.margin > 0 || spec.router.scales_input; },
     "a router with margins or scaled inputs"},
    {Feature::kRouterTraits, [](const ModelSpec& spec) { return spec.router.sigmoid; }, "a sigmoid router"},
    {Feature::kRouterTraits, [](const ModelSpec& spec) { return spec.router_correction || !spec.router.plain(); },
     "a router with corrections, groups or a scale"},
    {Feature::kQueryFactors, [](const ModelSpec& spec) { return spec.qk_norm == QkNorm::kRotatedHeads; },
     "norms of rotated queries and keys"},
    {Feature::kQueryFactors, [](const ModelSpec& spec) { return spec.position_scale != 0; },
     "attention scores scaled by position"},
    {Feature::kXielu, [](const ModelSpec& spec) { return spec.activation == Activation::kXielu; },
     "the activation xIELU"},
    {Feature::kRecurrence, [](const ModelSpec& spec) { return spec.recurrence.mixer == Mixer::kDeltaNet; },
     "gated DeltaNet layers"},
    {Feature::kRecurrence, [](const ModelSpec& spec) { return spec.recurrence.mixer == Mixer::kMamba2; },
     "Mamba-2 layers"},
    {Feature::kRecurrence, [](const ModelSpec& spec) { return spec.recurrence.mixer == Mixer::kKda; },
     "Kimi Delta Attention layers"},
    {Feature::kRecurrence, [](const ModelSpec& spec) { return spec.recurrence.mixer == Mixer::kConvolution; },
     "short convolutions"},
    {Feature::kGates, [](const ModelSpec& spec) { return spec.recurrent(); }, "gates of recurrent layers"},
    {Feature::kSeparateExperts, [](const ModelSpec& spec) { return spec.expert_inputs > 0; },
     "projected inputs of experts"},
    {Feature::kLayerFactors, [](const ModelSpec& spec) { return spec.factors.any(); }, "factors of its layers' parts"},
    {Feature::kPlainExperts, [](const ModelSpec& spec) { return spec.experts > 0 && !spec.gated; },
     "experts without a gate"},
    {Feature::kGates, [](const ModelSpec& spec) { return spec.query_gate; }, "a gate of the attention's output"},
};

}  // namespace

Status CheckNeeds(const ModelSpec& spec, const Backend& backend) {
  for (const Need& need : kNeeds) {
    if (!need.has(spec) || backend.has(need.feature)) continue;
    return InvalidArgument(fmt::format("the model has {}, which this device does not support yet", need.what),
                           "device");
  }
  if (spec.experts == 0 || !HasRowScales(backend.weight_dtype())) return Status::Ok();
  return InvalidArgument("the model has a mixture of experts, which is not computed with quantised weights",
                         "quantization");
}

// A share of a mixture is summed by itself before it joins the stream.
Status CheckShares(const ModelSpec& spec, const Backend& backend) {
  const bool sparse = std::ranges::any_of(spec.layer_traits, [](const LayerTraits& layer) { return layer.sparse; });
  const bool both = std::ranges::any_of(spec.layer_traits, [](const LayerTraits& layer) { return layer.attends; });
  const bool norms = spec.norm_after || spec.qk_norm == QkNorm::kRows || spec.recurrent_groups == 1;
  const char* what = spec.encoder_layers > 0                                       ? "an encoder"
                     : sparse                                                      ? "sparse activations"
                     : spec.expert_inputs > 0                                      ? "projected inputs of experts"
                     : spec.factors.any()                                          ? "factors of its layers' parts"
                     : both                                                        ? "attention beside a recurrence"
                     : norms && !backend.has(Feature::kRankNorms)                  ? "norms of values of all heads"
                     : spec.experts > 0 && !backend.has(Feature::kSeparateExperts) ? "a mixture of experts"
                                                                                   : nullptr;
  if (what == nullptr) return Status::Ok();
  return InvalidArgument(fmt::format("the model has {}, which ranks cannot share", what), "tensor_parallel_size");
}

Status CheckStages(const ModelSpec& spec) {
  const char* what = spec.encoder_layers > 0 ? "an encoder" : spec.layer_inputs > 0 ? "per-layer embeddings" : nullptr;
  if (what == nullptr) return Status::Ok();
  return InvalidArgument(fmt::format("the model has {}, which stages cannot share", what), "pipeline_parallel_size");
}

}  // namespace ringside
