// A network as data: all traits of a family that the only decoder block function needs, and no state of a conversation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/families/layer_factors.h"
#include "kernels/activation.h"
#include "kernels/kv_shape.h"
#include "kernels/recurrence.h"
#include "kernels/rope_pairs.h"
#include "kernels/router_traits.h"

namespace ringside {

enum class NormKind { kRms, kLayer };
enum class QkNorm {
  kNone,
  kHeads,         // RMS norm of every query and key head (Qwen3)
  kRows,          // of all queries of a row together, and of all keys (OLMo 2)
  kRotatedHeads,  // as kHeads, after the rotation (Hunyuan)
};

/// How a file divides the inputs of a delta rule's convolution among matrices.
enum class RecurrenceMatrices {
  kJoined,    // one for queries, keys and values
  kWithGate,  // also for the gate
  kEach,      // one each, and a convolution each
};

/// Rotary frequencies.
struct Rotation {
  std::vector<double> inverse_frequencies;  // [rotary / 2], scaling applied
  double magnitude = 1.0;                   // a factor on cos and sin (YaRN, LongRoPE)
  // [rotary / 2], or empty for all 0: which of a token's three positions turns a pair; 0 time, 1 row, 2 column. They
  // differ for images alone (Qwen2-VL, Wang et al. 2024).
  std::vector<uint8_t> axes;
};

/// Multi-head latent attention (DeepSeek-V2, DeepSeek-AI 2024): a token's keys and values are expanded from one latent,
/// and only the latent and one rotated key for all heads are cached. Queries are projected into the latent space, so
/// the expansions are never computed: the scores of a head are those of one key head [latent, rotated key] whose value
/// is the latent.
struct LatentAttention {
  int64_t rank = 0;             // dimensions of the latent; 0: plain attention
  int64_t query_rank = 0;       // of a latent of the queries; 0: they are projected from the hidden state
  int64_t plain = 0;            // dimensions of a query's head that are not rotated; `rotary` more follow
  int64_t value = 0;            // dimensions of an expanded value
  float norm_eps = 1e-6f;       // of the latents' norms
  bool separate_parts = false;  // the file has two matrices, one for keys and one for values, instead of one
};

/// Several residual streams (AltUp, Baykal et al. 2023; Gemma 3n). A layer predicts all streams from all, computes the
/// first, and corrects the others by the difference.
struct Streams {
  int64_t count = 0;        // 0: one stream
  int64_t laurel_rank = 0;  // of a low-rank map that is added to attention
  bool scaled = false;      // the corrected first stream is scaled by column before per-layer inputs
};

/// The traits that may differ between layers.
struct LayerTraits {
  Mixer mixer = Mixer::kAttention;
  bool attends = false;  // a recurrent layer also has attention, with the same input (Falcon-H1)
  int64_t window = 0;    // number of visible keys, the query's own included; 0 = all
  bool chunked = false;  // ScoreTraits::chunked
  int rotation = 0;      // index in ModelSpec::rotations; -1: not rotated
  bool has_mlp = true;
  int64_t dense_ffn = 0;  // width of this layer's MLP: that of a mixture has it instead of experts; 0: the model's
  int64_t heads = 0, kv_heads = 0, head_dim = 0;  // 0: the model's
  int64_t keys_of = -1;          // the earlier layer whose keys and values this one reads; -1: it has its own
  float sparsity = 0;            // standard deviations above the mean where the MLP's gate is cut off
  bool sparse = false;           // whether it is
  bool keys_are_values = false;  // values are the projected keys, before their norm
  bool plain_scores = false;     // not scaled by position (ModelSpec::position_scale)
  bool head_norms = true;        // of ModelSpec::qk_norm
};

struct ModelSpec {
  std::string name;          // the file's general.name, or its folder's name
  std::string architecture;  // as in the file
  int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, vocab = 0;
  int64_t ffn = 0;                        // hidden columns of an MLP, or of one expert
  int64_t trained_context = 0;            // positions the model was trained on
  std::vector<LayerTraits> layer_traits;  // [layers]; empty: all have the defaults

  NormKind norm = NormKind::kRms;
  float norm_eps = 1e-5f;
  float norm_offset = 0;                          // added to every norm's weight (Gemma)
  bool norm_weights = true, norm_biases = false;  // biases only for layer norms
  bool norm_before = true, norm_after = false;    // input norms of attention and MLP; output norms
  bool parallel = false;                          // attention and MLP have the same input (GPT-J)
  bool shared_norm = false;                       // with `parallel`: one norm for both
  bool norm_sums = false;                         // post-norm: the stream is normed after each addition (OPT-350m)
  bool final_norm = true;                         // before the head
  bool plain_final_norm = false;                  // without norm_offset
  float post_norm_eps = 0;                        // of output norms; 0: norm_eps
  bool embedding_norm = false;                    // norm of the token embeddings (BLOOM)
  bool embedding_norm_weights = true;

  bool gated = true;  // activation(gate) * up, not activation(up)
  Activation activation = Activation::kSilu;
  int64_t experts = 0, experts_used = 0;  // 0: a dense MLP
  bool experts_normalised = false;        // see ExpertsArgs
  int64_t shared_ffn = 0;                 // width of the shared expert with a gate (Qwen2-MoE); 0: none
  int64_t common_ffn = 0;                 // of the shared expert without one (GLM-4.5): an MLP for all rows; 0: none
  int64_t expert_inputs = 0;              // columns of projections to experts and back (Nemotron 3 Super); 0: none
  RouterTraits router;                    // without the correction's values
  bool router_correction = false;
  float router_cap = 0;  // soft cap of the router's logits; 0: none
  // The experts are computed next to the MLP for all rows, of width common_ffn. Both have norms of their own, and so do
  // the router, whose weights are scaled by expert, and the sum (Gemma 4).
  bool separate_experts = false;

  bool fused_qkv = false;      // one matrix for queries, keys and values
  bool query_gate = false;     // attention's output is multiplied by the sigmoid of a gate from the query's matrix
  bool separate_gate = false;  // with query_gate: the gate has its own matrix
  bool head_gates = false;     // with separate_gate: one gate per head
  bool softplus_gate = false;  // instead of the sigmoid
  bool fused_gate_up = false;  // one matrix for gate and up
  bool fused_experts = false;  // as fused_gate_up, of experts only
  bool fused_common = false;   // as fused_gate_up, of the shared expert of width common_ffn
  bool qkv_bias = false, attention_out_bias = false, mlp_bias = false, head_bias = false;
  QkNorm qk_norm = QkNorm::kNone;
  bool head_norm_weights = true;  // of queries and keys
  bool value_norm = false;        // RMS norm of every value head, without weights
  float query_scale = 0;          // attention scale; 0: 1 / sqrt(head_dim)
  // Scores of a query at t are scaled by 1 + position_scale ln(1 + floor((t + position_scale_shift) /
  // position_scale_context)) (Llama 4); t is at most trained_context - 1. 0: not scaled.
  float position_scale = 0;
  int64_t position_scale_context = 0, position_scale_shift = 0;
  float score_cap = 0;        // soft cap of the scores; 0: none
  double alibi = 0;           // head i of H has slope 2^(-alibi i / H), counted from 1 (Press et al. 2022); 0: none
  bool alibi_scaled = false;  // slopes are scaled like the scores (Falcon)
  bool sinks = false;         // a learned sink in every head's softmax (gpt-oss)
  LatentAttention latent;     // then kv_heads is 1 and head_dim is that of a cached key: rank + rotary

  RecurrenceShape recurrence;  // of the recurrent layers; their mixer is that of their traits
  RecurrenceMatrices recurrence_matrices = RecurrenceMatrices::kJoined;
  bool fused_rates = false;    // kDeltaNet: one matrix for weights and rates
  bool stored_rates = false;   // the file has the factors of the decays instead of their logarithms
  int64_t recurrent_rank = 0;  // kKda: of the low-rank projections to decays and gate
  bool convolution_bias = false;
  bool recurrent_bias = false;   // of the recurrent layers' projections
  int64_t recurrent_groups = 0;  // kMamba2: parts of the result with a norm each; 0: not normed
  float recurrent_norm_eps = 1e-6f;
  bool recurrent_norm_before = false;  // recurrent layers have input norms, whatever the others have (OLMo hybrid)

  int64_t image_layers = 0;           // first layers after which a part of an image's row is added (Qwen3-VL)
  bool images_see_all = false;        // tokens of an image see each other in both directions (Gemma 3)
  bool learned_positions = false;     // added to the embedding: a hard limit of trained_context positions
  bool sinusoidal_positions = false;  // as learned_positions, but computed instead of stored (XGLM)
  int64_t position_offset = 0;        // rows of the position table before that of position 0 (OPT)
  RopePairs rope_pairs = RopePairs::kNone;
  int64_t rotary = 0;          // rotated dimensions of a head
  int64_t scaled_context = 0;  // positions that a scaled rotation reaches (YaRN); 0 = not scaled
  std::vector<Rotation> rotations;

  // Encoder-decoder (T5): number of encoder layers, with the decoder's sizes; 0 = none. The encoder's output occupies a
  // cache's pinned positions; an answer starts after them, with the token `answer_start`.
  int64_t encoder_layers = 0;
  int64_t answer_start = 0;
  int64_t bias_buckets = 0;  // relative distance buckets, each with a bias per head (T5); 0: none
  int64_t bias_reach = 0;    // smallest distance in the last bucket

  // Per-layer inputs (Gemma 3n): a second embedding and a projection of the first one are added, normed, and multiply a
  // gate of each layer's result, which is added to the stream. Width of a layer's part; 0: none.
  int64_t layer_inputs = 0;
  int64_t layer_input_vocab = 0;  // rows of that embedding; larger ids are 0
  Streams streams;                // with layer_inputs, which are added to all streams but the first
  bool layer_scalar = false;      // a factor of the stream after each layer
  LayerFactors factors;

  // A layer after the others that drafts tokens (multi-token prediction, DeepSeek-V3, DeepSeek-AI 2024): 0 or 1. It has
  // the sizes of a layer with attention, and its own keys and values in the cache.
  int64_t draft_layers = 0;
  bool draft_experts_apart = false;  // its experts have a tensor each, although those of the others are joined

  float embedding_scale = 1;  // Gemma: sqrt(hidden)
  bool tied_head = false;     // the head shares the embedding's weights
  int64_t embedded = 0;       // width of embedding and head, if projected to the hidden size and back (OPT-350m)
  float logit_scale = 1;
  float logit_cap = 0;  // soft cap of the logits; 0: none

  /// Layers of the network and its draft layer, whose number is `layers`.
  int64_t all_layers() const { return layers + draft_layers; }
  /// The defaults for -1: no layer.
  LayerTraits Layer(int64_t layer) const {
    return layer < 0 || layer_traits.empty() ? LayerTraits{} : layer_traits[static_cast<size_t>(layer)];
  }
  bool IsMixture(int64_t layer) const { return experts > 0 && Layer(layer).has_mlp && Layer(layer).dense_ffn == 0; }
  /// Width of a layer's dense MLP, or 0.
  int64_t DenseColumns(int64_t layer) const {
    if (!Layer(layer).has_mlp) return 0;
    const int64_t own = Layer(layer).dense_ffn;
    return own != 0 ? own : experts == 0 ? ffn : common_ffn;
  }
  int64_t Heads(int64_t layer) const { return Layer(layer).heads != 0 ? Layer(layer).heads : heads; }
  /// Whether layers differ in their numbers of heads.
  bool heads_vary() const;
  /// A layer's key and value heads.
  KvLayer KvSizes(int64_t layer) const {
    const LayerTraits traits = Layer(layer);
    return {traits.kv_heads != 0 ? traits.kv_heads : kv_heads, traits.head_dim != 0 ? traits.head_dim : head_dim};
  }
  bool OwnsKeys(int64_t layer) const { return Layer(layer).keys_of < 0; }
  /// Number of the layer's keys and values in the cache (KvShape).
  int64_t KvIndex(int64_t layer) const;
  /// KvShape::varied.
  std::vector<KvLayer> varied_layers() const;
  bool shares_keys() const;
  bool IsAttention(int64_t layer) const { return Layer(layer).mixer == Mixer::kAttention || Layer(layer).attends; }
  bool recurrent() const { return recurrence.mixer != Mixer::kNone; }
  /// Number of layers with keys and values in the cache, the draft layer included.
  int64_t attention_layers() const;
  /// Number of layers with a recurrent state.
  int64_t recurrent_layers() const;
  /// Layout of the recurrent layers' states, without slots.
  StateShape state() const;
  /// The widest dense MLP of any layer, or 0.
  int64_t widest_dense() const;
  float score_scale() const;
  /// The factor of position_scale.
  float ScoreScaleAt(int64_t position) const;
  /// Columns of the embedding and of the head.
  int64_t embedding_columns() const { return embedded != 0 ? embedded : hidden; }
  /// [heads], or empty.
  std::vector<float> AlibiSlopes() const;
  /// Expands a file's `biases` [bias_buckets, heads] to one bias per distance, as in ScoreTraits. In an encoder half of
  /// the buckets are for keys after the query.
  std::vector<float> DistanceBiases(const std::vector<float>& biases, bool encoder) const;
  /// The widest layer's window, 0 if some layer sees all keys.
  int64_t widest_window() const;
  /// Tokens that the model can see at once: its trained context, extended by a scaled rotation, or its window if every
  /// layer has one.
  int64_t context() const;
  /// Columns of a layer's row of queries, keys and values: (H + 2G) d; (H + G) d if values are a part of the keys; H d
  /// if they are another layer's.
  int64_t qkv_columns(int64_t layer = 0) const {
    const auto [groups, size] = KvSizes(layer);
    return (Heads(layer) + (!OwnsKeys(layer) ? 0 : latent.rank > 0 ? 1 : 2) * groups) * size;
  }
  /// Columns of the attention's result: H v, v: dimensions of a cached value.
  int64_t attended_columns(int64_t layer = 0) const {
    return Heads(layer) * (latent.rank > 0 ? latent.rank : KvSizes(layer).head_dim);
  }
  /// Columns of the projected queries.
  int64_t query_columns(int64_t layer = 0) const {
    return Heads(layer) * (latent.rank > 0 ? latent.plain + rotary : KvSizes(layer).head_dim);
  }
  /// Inputs of the attention's output projection.
  int64_t value_columns(int64_t layer = 0) const {
    return Heads(layer) * (latent.rank > 0 ? latent.value : KvSizes(layer).head_dim);
  }
  /// The most of these columns of any layer.
  int64_t Widest(int64_t (ModelSpec::*columns)(int64_t layer) const) const;
  /// Columns of the gates before a row's queries.
  int64_t gate_columns(int64_t layer = 0) const {
    return !query_gate ? 0 : Heads(layer) * (head_gates ? 1 : KvSizes(layer).head_dim);
  }
  /// Columns of a recurrent layer's projected row.
  int64_t recurrent_columns() const;
  /// Columns of a recurrent layer's result.
  int64_t recurrent_outputs() const {
    return recurrence.mixer == Mixer::kConvolution ? recurrence.channels() : recurrence.values();
  }
  /// Columns of the experts' inputs and results.
  int64_t expert_columns() const { return expert_inputs != 0 ? expert_inputs : hidden; }
  /// Columns of the activation's input: 2F (gate and up) or F, for an MLP of width F.
  int64_t MlpInColumns(int64_t width) const { return gated ? 2 * width : width; }
  /// Weights of all layers' matrices: multiplications per token, without attention and the head.
  int64_t layer_weights() const;
};

/// For readers of files, before they allocate anything per layer.
/// ERRORS: kInvalidArgument, with the number of layers.
Status CheckLayers(const ModelSpec& spec);

/// Sizes layer_traits; keeps the existing ones.
/// ERRORS: as CheckLayers.
Status MakeLayerTraits(ModelSpec* spec);

/// Adds a draft layer, with attention over all keys.
void AddDraftLayer(ModelSpec* spec);

/// ERRORS: kInvalidArgument, with field and value, unless all sizes are sane and consistent.
Status ValidateSpec(const ModelSpec& spec);

}  // namespace ringside
