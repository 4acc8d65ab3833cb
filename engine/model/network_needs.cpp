#include "engine/model/network_needs.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/backend.h"

namespace ringside {
namespace {

/// A trait that ranks of a stage cannot share.
struct Unshared {
  bool (*has)(const ModelSpec& spec);
  const char* what;
};
constexpr Unshared kUnshared[] = {
    {[](const ModelSpec& spec) { return spec.encoder_layers > 0; }, "an encoder"},
    {[](const ModelSpec& spec) { return std::ranges::any_of(spec.layer_traits, &LayerTraits::sparse); },
     "sparse activations"},
    {[](const ModelSpec& spec) { return std::ranges::any_of(spec.layer_traits, &LayerTraits::attends); },
     "attention beside a recurrence"},
    {[](const ModelSpec& spec) { return spec.expert_inputs > 0; }, "projected inputs of experts"},
    {[](const ModelSpec& spec) { return spec.factors.any(); }, "factors of its layers' parts"},
};

}  // namespace

Status CheckNeeds(const ModelSpec& spec, const Backend& backend) {
  if (spec.experts == 0 || !HasRowScales(backend.weight_dtype())) return Status::Ok();
  return InvalidArgument("the model has a mixture of experts, which is not computed with quantised weights",
                         "quantization");
}

Status CheckShares(const ModelSpec& spec) {
  for (const Unshared& unshared : kUnshared) {
    if (!unshared.has(spec)) continue;
    return InvalidArgument(fmt::format("the model has {}, which ranks cannot share", unshared.what),
                           "tensor_parallel_size");
  }
  return Status::Ok();
}

Status CheckStages(const ModelSpec& spec) {
  const char* what = spec.encoder_layers > 0 ? "an encoder" : spec.layer_inputs > 0 ? "per-layer embeddings" : nullptr;
  if (what == nullptr) return Status::Ok();
  return InvalidArgument(fmt::format("the model has {}, which stages cannot share", what), "pipeline_parallel_size");
}

}  // namespace ringside
