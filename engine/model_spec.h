// A network as data: everything the one decoder block function needs to know of a family, and nothing of a conversation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace ringside {

enum class NormKind { kRms, kLayer };
enum class MlpKind { kSwiGlu, kGeluTanh, kGeluErf };

struct ModelSpec {
  std::string name;          // served name: the file's general.name, or its folder's
  std::string architecture;  // "llama", "qwen2", "qwen3", "mistral", "gpt2"
  int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocab = 0;
  int64_t trained_context = 0;    // positions the model was trained to
  int64_t sliding_window = 0;     // 0 = full attention; else memory_len may not exceed it
  NormKind norm = NormKind::kRms;
  float norm_eps = 1e-5f;
  MlpKind mlp = MlpKind::kSwiGlu;
  bool learned_positions = false;  // a hard limit of trained_context positions
  bool tied_head = false;          // logits = embedding
  bool qk_norm = false;            // RMS norm of every query and key head (Qwen3)
  RopePairs rope_pairs = RopePairs::kNone;
  int64_t rotary = 0;                       // rotated dimensions of a head
  std::vector<double> inverse_frequencies;  // [rotary / 2], scaling (linear, llama3, yarn) applied
  double rope_magnitude = 1.0;              // yarn's factor on cos and sin
};

}  // namespace ringside
