// The parameters of a network on a backend's device, and their loading from a file. Made once at load, const
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

/// A float32 vector on the device: a norm's weight, a bias. Empty if the family has none.
struct DeviceVector {
  Buffer buffer;
  Weight rounded;  // with 16-bit weights, a bias outside the residual stream, in the weights' type
  const float* data() const { return static_cast<const float*>(buffer.data()); }
};

/// One expert of a layer.
struct ExpertWeights {
  std::vector<Weight> in;          // gate, up; or fused
  DeviceVector in_bias, out_bias;  // [2F], [D]
  Weight out;                      // [D, F]
};

/// Multi-head latent attention; see ModelSpec::latent.
struct LatentWeights {
  Weight query_down;        // [query rank, D]; empty without a latent of the queries
  DeviceVector query_norm;  // [query rank]
  Weight query;             // [H (plain + rotary), D or query rank]
  Weight down;              // [rank + rotary, D]
  DeviceVector norm;        // [rank]
  Weight key_up;            // [H rank, plain]: transposed, so that it projects queries into the latent space
  Weight value_up;          // [H value, rank]
};

/// A recurrent mixer (kernels/recurrence.h).
struct RecurrentWeights {
  std::vector<Weight> in;                      // in the order of ModelSpec::recurrent_columns
  DeviceVector convolution, convolution_bias;  // [kernel, channels], [channels]
  DeviceVector rate_bias, rate, skip;          // RecurrenceWeights
  DeviceVector in_bias, out_bias;
  DeviceVector in_factors;   // of the columns of `in`; empty if all are 1
  Weight rates_up, gate_up;  // kKda: [decays, rank], [values, rank]
  DeviceVector norm;         // of the result
  Weight out;                // [D, values]
};

/// Experts next to an MLP; see ModelSpec::separate_experts.
struct SeparateExperts {
  DeviceVector mlp_post_norm, experts_norm, experts_post_norm, router_norm;  // [D]
  DeviceVector router_scales;                                                // [experts]
};

/// A layer's part of several streams; see ModelSpec::streams.
struct StreamWeights {
  DeviceVector router_norm;       // [D]; includes a factor of 1 / D
  Weight router;                  // [streams, D]
  Weight predict, correct;        // [streams^2, streams], [streams, streams]
  DeviceVector scale;             // [D]
  Weight laurel_down, laurel_up;  // [rank, D], [D, rank]
  DeviceVector laurel_norm;       // [D]
};

/// The model's part of per-layer inputs; see ModelSpec::layer_inputs.
struct LayerInputWeights {
  Weight table;       // [layer_input_vocab, L P]
  Weight projection;  // [L P, D]
  DeviceVector norm;  // [P]; includes a factor of sqrt(1 / 2)
};

/// The inputs and the output of a draft layer; see ModelSpec::draft_layers.
struct DraftWeights {
  DeviceVector embedding_norm, hidden_norm;  // [D]: of a token's embedding, and of the hidden state before it
  Weight projection;                         // [D, 2D]: of both, the embedding first
  DeviceVector norm;                         // [D]: before the head
};

/// One decoder block. Matrices are [outputs, inputs]; those with the same input are grouped, in output order.
struct LayerWeights {
  DeviceVector attention_norm, attention_norm_bias;  // [D]
  RecurrentWeights recurrent;                        // of a recurrent layer, most of which lack attention
  std::vector<Weight> qkv;                           // queries (after their gates), keys, values; or fused
  DeviceVector qkv_bias;                             // [(H + 2G) d], after the gates'
  DeviceVector query_norm, key_norm;                 // [d], or over all heads of a row
  DeviceVector query_weights;                        // [d] AttentionArgs::query_weights
  DeviceVector sinks;                                // [H]
  LatentWeights latent;
  Weight query_gate;                     // [gates, D]; ModelSpec::separate_gate
  Weight attention_out;                  // [D, H d]; d: of an expanded value
  DeviceVector attention_out_bias;       // [D]
  DeviceVector attention_post_norm;      // [D]
  DeviceVector mlp_norm, mlp_norm_bias;  // [D]
  std::vector<Weight> mlp_in;            // gate, up; or up alone; in a mixture that of all rows, or none
  DeviceVector mlp_in_bias;              // [2F] or [F]
  Weight mlp_out;                        // [D, F]
  DeviceVector mlp_out_bias;             // [D]
  XieluParameters xielu;
  DeviceVector mlp_post_norm;                   // [D]
  std::vector<Weight> router;                   // [experts, D]; with a shared expert, also its row
  DeviceVector router_bias, router_correction;  // [experts]
  std::vector<ExpertWeights> experts;           // the shared one last
  Weight experts_in, experts_out;               // [E, D], [D, E]; ModelSpec::expert_inputs
  std::vector<Expert> expert_list;              // the same, in the backend's form
  Buffer placed_experts;                        // Backend::PackExperts
  SeparateExperts separate;
  StreamWeights streams;
  Weight input_gate, input_out;  // [P, D], [D, P]; of per-layer inputs
  DeviceVector input_post_norm;  // [D]
  float scalar = 1;              // ModelSpec::layer_scalar
  // Cross-attention to an encoder's rows, if there is one.
  DeviceVector cross_norm;         // [D]
  Weight cross_query;              // [H d, D]
  std::vector<Weight> cross_keys;  // keys, values: [G d, D] each
  Weight cross_out;                // [D, H d]
  DraftWeights draft;
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
  DeviceVector final_norm, final_norm_bias;          // [D]; includes the logit scale
  DeviceVector head_bias;                            // [V]
  DeviceVector slopes;                               // [H]; ALiBi only
  DeviceVector biases;                               // ScoreTraits::biases; T5 only
  EncoderWeights encoder;                            // no layers if there is none
  LayerInputWeights layer_inputs;
  std::vector<Weight> stream_in, stream_out;  // [D, D] each, of all streams but the first
  DeviceVector ones;                          // weights of a norm without any; [the largest head size]
  std::vector<LayerWeights> layers;
  bool tied_head = false;
  int64_t bytes = 0;          // all tensors, as stored on the device
  std::optional<DType> kept;  // set if some weights stay quantized as in the file, instead of the backend's type

  const Weight& head() const { return tied_head ? embedding : own_head; }
};

/// Compares a file's tensors with the plan. `unsupported`: names and types of further tensors that the reader cannot
/// represent. ERRORS: kCorruption, with the name, for a tensor that is missing, misshapen, duplicate, or in neither the
/// plan nor its ignored names; kInvalidArgument for an unsupported type.
Status CheckTensors(const NetworkPlan& plan, std::span<const FileTensor> tensors,
                    std::span<const std::pair<std::string, std::string>> unsupported);

/// Uploads a rank's part of the planned tensors, in their file types; norms and biases become float32. `digest`, unless
/// null, gets the spec and every tensor's name, type, shape and bytes, in full for any shard. REQUIRES: CheckTensors
/// passed. ERRORS: kInvalidArgument for a type that does not suit its role or cannot be split at the shard's border;
/// kOverloaded if the device has no memory; with a digest, kCorruption, with the tensor, if a value or a block scale is
/// NaN or infinite.
Result<Weights> LoadWeights(const NetworkPlan& plan, std::span<const FileTensor> tensors, const Shard& shard,
                            Backend& backend, Digest* digest);

/// As LoadWeights, with random weights from `seed` and the tensors' names (kernels/random_weights.h); norms are 1. All
/// shards are parts of the same whole.
Result<Weights> MakeWeights(const NetworkPlan& plan, uint64_t seed, const Shard& shard, Backend& backend,
                            Digest* digest);

}  // namespace ringside
