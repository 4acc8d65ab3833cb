// A network as data: everything the one decoder block function needs to know of a family, and nothing of a
// conversation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "kernels/rope_pairs.h"

namespace ringside {

enum class NormKind { kRms, kLayer };
enum class MlpKind { kSwiGlu, kGeluTanh, kGeluErf };

struct ModelSpec {
  std::string name;          // the file's general.name, or its folder's
  std::string architecture;  // "llama", "qwen2", "qwen3", "mistral", "gpt2"
  int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocab = 0;
  int64_t trained_context = 0;  // positions the model was trained to
  int64_t sliding_window = 0;   // 0 = full attention; else memory_len may not exceed it
  NormKind norm = NormKind::kRms;
  float norm_eps = 1e-5f;
  MlpKind mlp = MlpKind::kSwiGlu;
  bool learned_positions = false;  // a hard limit of trained_context positions
  bool tied_head = false;          // logits = embedding
  bool qk_norm = false;            // RMS norm of every query and key head (Qwen3)
  bool fused_qkv = false;          // one matrix gives queries, keys and values (GPT-2)
  bool qkv_bias = false, attention_out_bias = false, mlp_bias = false;
  RopePairs rope_pairs = RopePairs::kNone;
  int64_t rotary = 0;                       // rotated dimensions of a head
  std::vector<double> inverse_frequencies;  // [rotary / 2], scaling (linear, llama3, yarn) applied
  double rope_magnitude = 1.0;              // yarn's factor on cos and sin

  /// Columns of a row of queries, keys and values: (H + 2G) d.
  int64_t qkv_columns() const { return (heads + 2 * kv_heads) * head_dim; }
  /// Columns of what goes into the activation: 2F (gate and up) or F.
  int64_t mlp_in_columns() const { return mlp == MlpKind::kSwiGlu ? 2 * ffn : ffn; }
  /// Elements of the layers' matrices: products that a token takes, but for attention and the head.
  int64_t layer_weights() const {
    return layers * (hidden * (qkv_columns() + mlp_in_columns()) + (heads * head_dim + ffn) * hidden);
  }
};

/// kInvalidArgument, naming field and value, unless every size is sane and they fit one another.
Status ValidateSpec(const ModelSpec& spec);

/// How a model's rotation frequencies come from base^(-2j / rotary).
struct RopeScaling {
  enum class Kind {
    kNone,
    kLinear,   // all divided by factor (Chen et al. 2023)
    kLlama3,   // long wavelengths divided by factor, short ones kept, a ramp between (Llama 3.1)
    kYarn,     // the same with a ramp over dimensions, and a magnitude (Peng et al. 2023)
    kFactors,  // each divided by its own number from the file
  };
  Kind kind = Kind::kNone;
  double base = 10000.0;
  double factor = 1.0;
  double original_context = 0;                           // llama3, yarn
  double low_freq_factor = 1.0, high_freq_factor = 4.0;  // llama3
  double beta_fast = 32.0, beta_slow = 1.0;              // yarn
  double magnitude = 0;                                  // yarn; 0 = 1 + 0.1 ln(factor)
  bool truncate = true;                                  // yarn: whole dimensions bound the ramp
  std::vector<double> factors;                           // [rotary / 2]
};

/// Fills spec.inverse_frequencies and spec.rope_magnitude from spec.rotary, in float64. kInvalidArgument, naming it,
/// for a parameter out of range.
Status ApplyRopeScaling(const RopeScaling& scaling, ModelSpec* spec);

}  // namespace ringside
