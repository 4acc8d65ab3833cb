#include "engine/families/tensor_roles.h"

#include "base/check.h"

namespace ringside {
namespace {

template <class... Sizes>
std::vector<int64_t> Dims(Sizes... sizes) {
  return {sizes...};
}

struct RoleTraits {
  TensorPlace place;
  TensorSplit split;
};
constexpr RoleTraits kTraits[] = {
#define TENSOR(role, place, shape, needed, split, load) {TensorPlace::place, TensorSplit::split},
#include "engine/families/tensor_roles.def"
};

}  // namespace

TensorPlace PlaceOf(TensorRole role) { return kTraits[static_cast<size_t>(role)].place; }
TensorSplit SplitOf(TensorRole role) { return kTraits[static_cast<size_t>(role)].split; }

std::vector<int64_t> ShapeOf(TensorRole role, const ModelSpec& spec, int64_t layer) {
  const auto [kv_heads, head_dim] = spec.KvSizes(layer);
  const int64_t queries = spec.query_columns(layer), keys = kv_heads * head_dim,
                gates = spec.separate_gate ? 0 : spec.gate_columns(layer);
  const RecurrenceShape& recurrence = spec.recurrence;
  const bool row_norms = spec.qk_norm == QkNorm::kRows;
  const int64_t width = layer < 0 ? 0 : spec.DenseColumns(layer);
  switch (role) {
#define TENSOR(role, place, shape, needed, split, load) \
  case TensorRole::role:                                \
    return shape;
#include "engine/families/tensor_roles.def"
  }
  CheckFailed(__FILE__, __LINE__, "unknown role");
}

int64_t PartsOf(TensorRole role, const ModelSpec& spec) {
  if (role == TensorRole::kStreamIn || role == TensorRole::kStreamOut) return spec.streams.count - 1;
  return PlaceOf(role) == TensorPlace::kExpert ? spec.experts : 0;
}

bool IsRequired(TensorRole role, const ModelSpec& spec, int64_t layer, bool encoder) {
  const bool fused_qkv = spec.fused_qkv && !encoder, sums = spec.norm_sums;
  const bool mixture = layer >= 0 && spec.IsMixture(layer);
  const bool has_mlp = layer < 0 || encoder || spec.Layer(layer).has_mlp, dense = has_mlp && !mixture;
  const Mixer mixer = layer < 0 || encoder ? Mixer::kAttention : spec.Layer(layer).mixer;
  const bool owns = layer < 0 || spec.OwnsKeys(layer), has_values = owns && !spec.Layer(layer).keys_are_values;
  const bool streams = spec.streams.count > 0;
  const bool drafts = layer >= spec.layers;
  const bool fused_experts = (spec.fused_gate_up || spec.fused_experts) && !(drafts && spec.draft_experts_apart);
  const bool head_norms = spec.qk_norm != QkNorm::kNone && spec.head_norm_weights;
  const bool attention = layer < 0 || encoder || spec.IsAttention(layer), latent = attention && spec.latent.rank > 0;
  const bool plain = attention && !latent, has_state = IsRecurrent(mixer) && mixer != Mixer::kConvolution;
  const bool delta = mixer == Mixer::kDeltaNet, kda = mixer == Mixer::kKda, mixes = mixer != Mixer::kNone;
  const bool before = spec.recurrent_norm_before && IsRecurrent(mixer), norm_after = spec.norm_after && !before;
  const bool layer_norms = spec.norm_before || sums || before;
  const RecurrenceMatrices matrices = spec.recurrence_matrices;
  const bool each = (delta || kda) && matrices == RecurrenceMatrices::kEach;
  const bool joined = mixer == Mixer::kMamba2 || mixer == Mixer::kConvolution;
  switch (role) {
#define TENSOR(role, place, shape, needed, split, load) \
  case TensorRole::role:                                \
    return needed;
#include "engine/families/tensor_roles.def"
  }
  CheckFailed(__FILE__, __LINE__, "unknown role");
}

}  // namespace ringside
