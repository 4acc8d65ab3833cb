#include "engine/model/network_needs.h"

#include <fmt/format.h>

#include "kernels/backend.h"

namespace ringside {
namespace {

bool WindowsDiffer(const ModelSpec& spec) {
  for (int64_t layer = 1; layer < spec.layers; ++layer) {
    if (spec.Layer(layer).window != spec.Layer(0).window) return true;
  }
  return false;
}

}  // namespace

// One window of all layers asks for nothing: no conversation keeps more than that (ModelSpec::context).
Status CheckNeeds(const ModelSpec& spec, const Backend& backend) {
  const struct {
    bool needed;
    BackendFeature feature;
    const char* what;
  } needs[] = {
      {spec.score_cap > 0, BackendFeature::kSoftCap, "a soft cap of attention scores"},
      {spec.alibi > 0, BackendFeature::kSlopes, "slopes on attention scores (ALiBi)"},
      {spec.sinks, BackendFeature::kSinks, "learned attention sinks"},
      {WindowsDiffer(spec), BackendFeature::kWindows, "layers with different attention windows"},
      {spec.rotations.size() > 1, BackendFeature::kRotations, "layers with different rotations"},
      {spec.experts > 0, BackendFeature::kExperts, "a mixture of experts"},
  };
  for (const auto& need : needs) {
    if (need.needed && !backend.Has(need.feature)) {
      return InvalidArgument(fmt::format("the model has {}, which is computed on the CPU only", need.what), "device");
    }
  }
  return Status::Ok();
}

Status CheckShares(const ModelSpec& spec) {
  const char* what = spec.experts > 0                ? "a mixture of experts"
                     : spec.norm_after               ? "norms behind attention and MLP"
                     : spec.qk_norm == QkNorm::kRows ? "norms over all queries, and all keys, of a row"
                                                     : nullptr;
  if (what == nullptr) return Status::Ok();
  return InvalidArgument(fmt::format("the model has {}, which ranks cannot share", what), "tensor_parallel_size");
}

}  // namespace ringside
