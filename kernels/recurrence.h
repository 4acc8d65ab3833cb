// Recurrent token mixers: shapes, layout of their state, and the arguments of Backend::Recur. Plain data.
//
// Per value head, with a state S of [key size, value size], q, k and v after the causal convolution, a decay g <= 0 and
// a weight b (Yang et al. 2024, Gated DeltaNet; Dao and Gu 2024, Mamba-2):
//
//   kDeltaNet  S = e^g S + k u^T, u = b (v - (e^g S)^T k)      kMamba2  S = e^g S + k u^T, u = b v
//   o = S^T q
//
// Results must not depend on how tokens are split into steps, so all devices compute from the state at the last
// boundary (kernels/state_shape.h), S_0, and the rows since then. With G_t the sum of g over these rows, in this order:
//
//   u_t = b_t (v_t - e^G_t S_0^T k_t - sum over i < t of e^(G_t - G_i) (k_i . k_t) u_i)      kDeltaNet; else b_t v_t
//   o_t = e^G_t S_0^T q_t + sum over i <= t of e^(G_t - G_i) (k_i . q_t) u_i                 [+ skip v_t]
//   S_C = e^G_C S_0 + sum over i of e^(G_C - G_i) k_i u_i^T                                  at the next boundary
//
// With kKda G has one value per key channel, which multiplies inside the products with k and q. kConvolution is the
// convolution alone.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/kv_shape.h"
#include "kernels/tensor.h"

namespace ringside {

struct AttentionSegment;

/// How a layer mixes tokens.
enum class Mixer {
  kAttention,
  kDeltaNet,     // gated DeltaNet (Qwen3-Next)
  kMamba2,       // state space duality (Mamba-2)
  kKda,          // Kimi Delta Attention: a gated DeltaNet with a decay per channel
  kConvolution,  // a short causal convolution (LFM2)
  kNone,         // not at all: the layer is an MLP
};
inline bool IsRecurrent(Mixer mixer) { return mixer != Mixer::kAttention && mixer != Mixer::kNone; }

/// Sizes of a network's recurrent layers, and the layout of their states in floats.
///
///   boundary: [value_heads][key_size][value_size] state, [kernel - 1][channels] convolution inputs before it
///   tail row: [channels] convolution inputs, [key_heads][key_size] k, [value_heads][value_size] u, G of each head; the
///             first part only for kConvolution
struct RecurrenceShape {
  static constexpr int64_t kMaxSize = 256;   // of a key or a value
  static constexpr int64_t kMaxKernel = 16;  // inputs of the convolution

  Mixer mixer = Mixer::kNone;
  int64_t key_heads = 0, value_heads = 0;  // a key head serves value_heads / key_heads consecutive value heads
  int64_t key_size = 0, value_size = 0;    // value_size is a multiple of 16
  int64_t kernel = 0;                      // inputs of the convolution, the current one included
  int64_t width = 0;                       // channels of kConvolution
  float largest_beta = 1;                  // b = largest_beta sigmoid(betas): 2 allows negative eigenvalues
  bool alternates = false;                 // value head h belongs to key head h % key_heads instead (llama.cpp's files)

  int64_t keys() const { return key_heads * key_size; }
  int64_t values() const { return value_heads * value_size; }
  /// Channels of the convolution: q, k and v; with kConvolution, its width.
  int64_t channels() const { return mixer == Mixer::kConvolution ? width : 2 * keys() + values(); }
  /// Whether the update subtracts the state's value for the key.
  bool corrects() const { return mixer == Mixer::kDeltaNet || mixer == Mixer::kKda; }
  /// Number of decay rates of a token: one per head, or per channel of its key.
  int64_t decays() const { return mixer == Mixer::kKda ? keys() : value_heads; }
  /// Order of the convolution's channels: v, k, q (Mamba-2) or q, k, v.
  int64_t query_channel() const { return mixer == Mixer::kMamba2 ? values() + keys() : 0; }
  int64_t key_channel() const { return mixer == Mixer::kMamba2 ? values() : keys(); }
  int64_t value_channel() const { return mixer == Mixer::kMamba2 ? 0 : 2 * keys(); }
  /// Columns of RecurrenceArgs::mixed.
  int64_t mixed_columns() const { return mixer == Mixer::kConvolution ? 0 : channels() + decays() + value_heads; }

  int64_t state_floats() const { return value_heads * key_size * value_size; }
  int64_t boundary_floats() const { return RoundUp(state_floats() + (kernel - 1) * channels()); }
  int64_t key_in_row() const { return channels(); }
  int64_t update_in_row() const { return channels() + keys(); }
  int64_t decay_in_row() const { return channels() + keys() + values(); }
  int64_t row_floats() const {
    return RoundUp(mixer == Mixer::kConvolution ? width : channels() + keys() + values() + decays());
  }
  /// Without slots.
  StateShape StateOf(int64_t layers) const {
    if (layers == 0) return {};
    return {.layers = layers,
            .boundary_bytes = boundary_floats() * int64_t{sizeof(float)},
            .tail_row_bytes = row_floats() * int64_t{sizeof(float)}};
  }

  friend bool operator==(const RecurrenceShape&, const RecurrenceShape&) = default;

 private:
  static int64_t RoundUp(int64_t floats) { return (floats + 15) / 16 * 16; }
};

/// Vectors on the device.
struct RecurrenceWeights {
  const float* convolution = nullptr;       // [kernel, channels]: y_t = sum over j of w_j x_(t - kernel + 1 + j)
  const float* convolution_bias = nullptr;  // [channels], or null
  const float* rate_bias = nullptr;         // [decays]
  const float* rate = nullptr;              // [decays], negative: g = rate softplus(rates + rate_bias)
  const float* skip = nullptr;              // [value_heads], or null
};

struct RecurrenceArgs {
  RecurrenceShape sizes;
  RecurrenceWeights weights;
  Tensor x;      // [T, channels] inputs of the convolution
  Tensor rates;  // [T, decays]
  Tensor betas;  // [T, value_heads], if it corrects: b = largest_beta sigmoid(betas). Mamba-2: b = softplus(rates +
                 // rate_bias)
  Tensor mixed;  // [T, mixed_columns()], workspace
  Tensor out;    // [T, values], or [T, channels] of kConvolution
  int64_t layer = 0;  // among the recurrent ones
  KvShape shape;      // its `state` has the sizes' layout
  std::span<const AttentionSegment> segments;
  uint64_t step = 0;  // as in AttentionArgs
};

/// A factor of another tensor's elements (Backend::Gate).
enum class GateKind {
  kSigmoid,
  kSilu,
  kIdentity,
  kSoftplus,
};

}  // namespace ringside
