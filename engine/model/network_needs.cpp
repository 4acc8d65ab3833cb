#include "engine/model/network_needs.h"

#include <fmt/format.h>

#include "kernels/backend.h"

namespace ringside {

Status CheckNeeds(const ModelSpec& spec, const Backend& backend) {
  if (spec.experts == 0 || !HasRowScales(backend.weight_dtype())) return Status::Ok();
  return InvalidArgument("the model has a mixture of experts, which is not computed with quantised weights",
                         "quantization");
}

Status CheckShares(const ModelSpec& spec) {
  const char* what = spec.encoder_layers > 0         ? "an encoder"
                     : spec.experts > 0              ? "a mixture of experts"
                     : spec.norm_after               ? "norms after attention and MLP"
                     : spec.qk_norm == QkNorm::kRows ? "norms over all queries, and all keys, of a row"
                                                     : nullptr;
  if (what == nullptr) return Status::Ok();
  return InvalidArgument(fmt::format("the model has {}, which ranks cannot share", what), "tensor_parallel_size");
}

}  // namespace ringside
