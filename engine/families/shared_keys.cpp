#include "engine/families/shared_keys.h"

#include <fmt/format.h>

namespace ringside {

Status ShareKeys(const std::string& key, int64_t shared, ModelSpec* spec) {
  if (shared < 0 || shared >= spec->layers) {
    return InvalidArgument(fmt::format("'{}' is {} of {} layers", key, shared, spec->layers));
  }
  const int64_t first = spec->layers - shared;
  for (int64_t layer = first; layer < spec->layers; ++layer) {
    int64_t source = first - 1;
    while (source >= 0 && (spec->Layer(source).window > 0) != (spec->Layer(layer).window > 0)) --source;
    if (source < 0) return InvalidArgument(fmt::format("layer {} has no earlier layer to share keys with", layer));
    spec->layer_traits[static_cast<size_t>(layer)].keys_of = source;
  }
  return Status::Ok();
}

}  // namespace ringside
