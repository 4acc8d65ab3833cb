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
  kHeads,        // outputs of its query heads
  kQueries,      // also those of the gates before them
  kKeys,         // outputs of its key/value heads
  kQueryNorm,    // as kHeads if the norm is over all queries of a row, else the whole
  kKeyNorm,      // as kKeys if the norm is over all keys of a row, else the whole
  kQkv,          // outputs of both, of a fused matrix
  kMlp,          // its columns of the MLP, or of an expert
  kGateUp,       // these columns of both halves
  kQueryInputs,  // inputs from its query heads
  kMlpInputs,    // inputs from its columns of the MLP

  // Tensors of a recurrent layer (kernels/recurrence.h).
  kRecurrentKeys,       // outputs of its key heads
  kRecurrentValues,     // outputs of its value heads
  kRecurrentHeads,      // one output per value head
  kRecurrentHeadPairs,  // two outputs per value head: all first ones, then all second ones
  kRecurrentDecays,     // one per decay rate
  kChannels,            // of the convolution
  kChannelsGate,        // then those of the gate
  kRecurrentIn,         // all inputs of a mixer, in one matrix
  kRecurrentNorm,       // as kRecurrentValues if heads have different norms, else the whole
  kRecurrentInputs,     // inputs from its value heads or channels
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
