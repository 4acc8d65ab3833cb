// The role of a tensor in a network, and everything that follows from it: place, shape, split over ranks. The table is
// tensor_roles.def. Pure. THREAD: any.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/families/model_spec.h"

namespace ringside {

enum class TensorRole {
#define TENSOR(role, place, shape, needed, split, load) role,
#include "engine/families/tensor_roles.def"
};

enum class TensorPlace {
  kEmbed,   // once, on the ranks that embed tokens
  kChoose,  // once, on the ranks that choose tokens
  kLayer,   // in each layer
  kExpert,  // in each expert of a layer
  kShared,  // in a layer's shared expert
};

/// The part of a tensor that a rank has.
enum class TensorSplit {
  kNone,         // the whole tensor
  kVocabulary,   // its tokens' outputs
  kHeads,        // one value per query head
  kQueries,      // outputs of its query heads
  kKeys,         // outputs of its key/value heads
  kQkv,          // both, of a fused matrix
  kMlp,          // its columns of the MLP
  kGateUp,       // the same columns of both halves
  kQueryInputs,  // inputs from its query heads
  kMlpInputs,    // inputs from its columns of the MLP
};

TensorPlace PlaceOf(TensorRole role);
TensorSplit SplitOf(TensorRole role);
/// [outputs, inputs] or [values] in network order; one expert's.
std::vector<int64_t> ShapeOf(TensorRole role, const ModelSpec& spec, int64_t layer);
/// True if a network of this spec has such a tensor, in its encoder or its decoder, and in this layer if it is a
/// layer's.
bool IsRequired(TensorRole role, const ModelSpec& spec, int64_t layer, bool encoder);

/// Number of tensors of this role in a layer or network, which a file may join: experts, or streams without the first.
/// 0 for other roles.
int64_t PartsOf(TensorRole role, const ModelSpec& spec);

inline bool IsPerLayer(TensorRole role) { return PlaceOf(role) >= TensorPlace::kLayer; }

}  // namespace ringside
