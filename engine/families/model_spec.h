// A network as data: everything the one decoder block function needs to know of a family, and nothing of a
// conversation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "kernels/activation.h"
#include "kernels/rope_pairs.h"

namespace ringside {

enum class NormKind { kRms, kLayer };
enum class QkNorm {
  kNone,
  kHeads,  // RMS norm of every query and key head (Qwen3)
  kRows,   // of all queries of a row together, and of all keys (OLMo 2)
};

/// How fast the pairs of dimensions of a head turn.
struct Rotation {
  std::vector<double> inverse_frequencies;  // [rotary / 2], scaling applied
  double magnitude = 1.0;                   // a factor on cos and sin (yarn, longrope)
};

/// In what the layers of a network differ.
struct LayerTraits {
  int64_t window = 0;  // so many keys are seen, a query's own among them; 0 = all
  int rotation = 0;    // of ModelSpec::rotations; -1: not rotated
};

struct ModelSpec {
  std::string name;          // the file's general.name, or its folder's
  std::string architecture;  // as the file has it
  int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, vocab = 0;
  int64_t ffn = 0;                        // columns between the two matrices of an MLP, or of one expert's
  int64_t trained_context = 0;            // positions the model was trained to
  std::vector<LayerTraits> layer_traits;  // [layers]; empty: all have the default

  NormKind norm = NormKind::kRms;
  float norm_eps = 1e-5f;
  float norm_offset = 0;                          // added to every norm's weight (Gemma)
  bool norm_weights = true, norm_biases = false;  // what norms have; biases only layer norms
  bool norm_before = true, norm_after = false;    // of what goes into attention and MLP, of what comes out
  bool parallel = false;                          // attention and MLP have the same input (GPT-J)
  bool shared_norm = false;                       // parallel, behind one norm
  bool norm_sums = false;                         // post-norm: of the stream after each addition (OPT-350m)
  bool final_norm = true;                         // before the head
  bool embedding_norm = false;                    // of the embedded tokens (BLOOM)

  bool gated = true;  // activation(gate) * up, not activation(up)
  Activation activation = Activation::kSilu;
  int64_t experts = 0, experts_used = 0;  // 0: one MLP
  bool experts_normalised = false;        // as in ExpertsArgs
  int64_t shared_ffn = 0;                 // of the expert that all rows take (Qwen2-MoE); 0: none

  bool fused_qkv = false;      // one matrix gives queries, keys and values
  bool fused_gate_up = false;  // one matrix gives gate and up
  bool qkv_bias = false, attention_out_bias = false, mlp_bias = false, head_bias = false;
  QkNorm qk_norm = QkNorm::kNone;
  float query_scale = 0;      // of the scores; 0: 1 / sqrt(head_dim)
  float score_cap = 0;        // soft cap of the scores; 0: none
  double alibi = 0;           // head i of H has slope 2^(-alibi i / H), counted from 1 (Press et al. 2022); 0: none
  bool alibi_scaled = false;  // slopes are scaled as the scores are (Falcon)
  bool sinks = false;         // a learned one in every head's softmax (gpt-oss)

  bool learned_positions = false;     // added to the embedding: a hard limit of trained_context positions
  bool sinusoidal_positions = false;  // the same, computed and not in the file (XGLM)
  int64_t position_offset = 0;        // rows of their table before the first position's (OPT)
  RopePairs rope_pairs = RopePairs::kNone;
  int64_t rotary = 0;          // rotated dimensions of a head
  int64_t scaled_context = 0;  // positions that a stretched rotation reaches (YaRN); 0 = not stretched
  std::vector<Rotation> rotations;

  // An encoder in front (T5): so many layers of the decoder's sizes, 0 = none. What it makes of its input takes a
  // cache's pinned positions; an answer begins behind them, with the token `answer_start`.
  int64_t encoder_layers = 0;
  int64_t answer_start = 0;
  int64_t bias_buckets = 0;  // of distances, each with a bias in every head (T5); 0: none
  int64_t bias_reach = 0;    // the least distance that is in the last of them

  float embedding_scale = 1;  // Gemma: sqrt(hidden)
  bool tied_head = false;     // logits = embedding
  int64_t embedded = 0;  // columns of embedding and head, if matrices project to the hidden size and back (OPT-350m)
  float logit_scale = 1;
  float logit_cap = 0;  // soft cap of the logits; 0: none

  LayerTraits Layer(int64_t layer) const {
    return layer_traits.empty() ? LayerTraits{} : layer_traits[static_cast<size_t>(layer)];
  }
  float score_scale() const;
  /// Columns of the embedding and of the head.
  int64_t embedding_columns() const { return embedded != 0 ? embedded : hidden; }
  /// [heads], or none.
  std::vector<float> AlibiSlopes() const;
  /// Of a file's `biases` [bias_buckets, heads], those of every distance, as ScoreTraits has them. In an encoder half
  /// of the buckets are those of keys behind the query.
  std::vector<float> DistanceBiases(const std::vector<float>& biases, bool encoder) const;
  /// The widest layer's window, 0 if some layer sees all keys.
  int64_t widest_window() const;
  /// Tokens that the model can see at once: its trained context, further where its rotation is stretched, or its window
  /// where every layer has one.
  int64_t context() const;
  /// Columns of a row of queries, keys and values: (H + 2G) d.
  int64_t qkv_columns() const { return (heads + 2 * kv_heads) * head_dim; }
  /// Columns of what goes into the activation: 2F (gate and up) or F.
  int64_t mlp_in_columns() const { return gated ? 2 * ffn : ffn; }
  /// Elements of the layers' matrices: products that a token takes, but for attention and the head.
  int64_t layer_weights() const {
    const int64_t mlp = experts > 0 ? experts_used * 3 * ffn + 3 * shared_ffn + experts : mlp_in_columns() + ffn;
    return layers * hidden * (qkv_columns() + heads * head_dim + mlp);
  }
};

/// kInvalidArgument, naming field and value, unless every size is sane and they fit one another.
Status ValidateSpec(const ModelSpec& spec);

}  // namespace ringside
