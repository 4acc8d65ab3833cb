// The parameters of a network on a backend's device, and their way there from a file. Made once at load, const
// afterwards; owned by the Model.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/families/network_plan.h"
#include "engine/model/weights/shard.h"
#include "kernels/backend.h"

namespace ringside {

class Digest;

/// A float32 vector on the device: a norm's weight, a bias. Empty where the family has none.
struct DeviceVector {
  Buffer buffer;
  Weight rounded;  // a bias of what is not added to the stream, if weights have 16 bits: the same in their type
  const float* data() const { return static_cast<const float*>(buffer.data()); }
};

/// One of a layer's experts.
struct ExpertWeights {
  std::vector<Weight> in;          // gate, up; or both in one
  DeviceVector in_bias, out_bias;  // [2F], [D]
  Weight out;                      // [D, F]
};

/// One decoder block. Matrices are [outputs, inputs]; those of one input stand together, in the order of their outputs.
struct LayerWeights {
  DeviceVector attention_norm, attention_norm_bias;  // [D]
  std::vector<Weight> qkv;                           // queries, keys, values; or all in one
  DeviceVector qkv_bias;                             // [(H + 2G) d]
  DeviceVector query_norm, key_norm;                 // [d], or of all heads of a row
  DeviceVector sinks;                                // [H]
  Weight attention_out;                              // [D, H d]
  DeviceVector attention_out_bias;                   // [D]
  DeviceVector attention_post_norm;                  // [D]
  DeviceVector mlp_norm, mlp_norm_bias;              // [D]
  std::vector<Weight> mlp_in;                        // gate, up; or up alone
  DeviceVector mlp_in_bias;                          // [2F] or [F]
  Weight mlp_out;                                    // [D, F]
  DeviceVector mlp_out_bias;                         // [D]
  DeviceVector mlp_post_norm;                        // [D]
  std::vector<Weight> router;                        // [experts, D]; the shared expert's row, if there is one
  DeviceVector router_bias;                          // [experts]
  std::vector<ExpertWeights> experts;                // the shared one last
  std::vector<Expert> expert_list;                   // the same as the backend wants them
  Buffer placed_experts;                             // Backend::PlaceExperts
  // Of the attention to an encoder's rows, where there is one.
  DeviceVector cross_norm;         // [D]
  Weight cross_query;              // [H d, D]
  std::vector<Weight> cross_keys;  // keys, values: [G d, D] each
  Weight cross_out;                // [D, H d]
};

/// An encoder in front of the decoder.
struct EncoderWeights {
  std::vector<LayerWeights> layers;
  DeviceVector final_norm;  // [D]
  DeviceVector biases;      // ScoreTraits::biases
};

struct Weights {
  Weight embedding;                                  // [V, D]
  Weight positions;                                  // [trained context, D]; learned positions only
  Weight own_head;                                   // [V, D]; empty if tied
  Weight project_in, project_out;                    // [D, E], [E, D]; only with an embedding [V, E]
  DeviceVector embedding_norm, embedding_norm_bias;  // [D]
  DeviceVector final_norm, final_norm_bias;          // [D]; the logit scale is in them
  DeviceVector head_bias;                            // [V]
  DeviceVector slopes;                               // [H]; ALiBi only
  DeviceVector biases;                               // ScoreTraits::biases; T5 only
  EncoderWeights encoder;                            // no layers: there is none
  std::vector<LayerWeights> layers;
  bool tied_head = false;
  int64_t bytes = 0;          // of all tensors, as the device holds them
  std::optional<DType> kept;  // what tells that some are quantised as the file has them, not in the backend's type

  const Weight& head() const { return tied_head ? embedding : own_head; }
};

/// The tensors of a file, by the plan. kCorruption, naming it, for one that is missing, misshapen, there twice or in
/// neither the plan nor its ignored names; kInvalidArgument for a type that is not supported: `unsupported` are names
/// and element types of further tensors that the reader could not represent.
Status CheckTensors(const NetworkPlan& plan, std::span<const FileTensor> tensors,
                    std::span<const std::pair<std::string, std::string>> unsupported);

/// Takes a rank's part of the planned tensors, which must be there, to its device, in their file's types; norms and
/// biases become float32. kInvalidArgument for a type that does not suit its role or cannot be cut where the shard
/// ends; kOverloaded if the device has no room. `digest`, unless null, gets the spec and every tensor's name, type,
/// shape and bytes, all of them whatever the shard; kCorruption, naming the tensor, if one holds NaN or an infinity, in
/// the scales of blocks as well.
Result<Weights> LoadWeights(const NetworkPlan& plan, std::span<const FileTensor> tensors, const Shard& shard,
                            Backend& backend, Digest* digest);

/// The same for weights that are made up from `seed` and the tensors' names (kernels/random_weights.h), norms' being 1:
/// whatever the shard, they are parts of the same whole.
Result<Weights> MakeWeights(const NetworkPlan& plan, uint64_t seed, const Shard& shard, Backend& backend,
                            Digest* digest);

}  // namespace ringside
