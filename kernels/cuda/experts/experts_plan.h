// One mixture-of-experts layer as its kernels consume it: weight addresses and the workspace between kernels. Plain
// data.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/activation.h"
#include "kernels/cuda/host_device.h"
#include "kernels/router_traits.h"
#include "kernels/tensor.h"

namespace ringside::cuda {

/// One matrix of an expert: rows of T, or block-quantized tiles (linear/block_quant_layout.h).
struct PackedMatrix {
  const void* data;
  const float* units;  // row units, or scales of E4M3 tiles; else null
  int32_t first_row;   // the expert's first row: gate and up may share one matrix
  int32_t bits;        // bits per element: 16, or as in TileOf
};

/// One expert in device memory: gate and up [F, D], of the same type, and out [D, F]. Without a gate, `gate` and `up`
/// are the halves [F / 2, D] of its input matrix.
struct PackedExpert {
  PackedMatrix gate, up, out;
  const float *in_bias, *out_bias;  // [2F], or [F] without a gate; [D]; or null
  int64_t inner;                    // F
};

/// A bit per block-quantized type; 0 for other types.
constexpr uint32_t TileTypeBit(DType type) {
  return HasGroupScales(type) ? 1u << (static_cast<int>(type) - static_cast<int>(DType::kBlockQuant2)) : 0;
}
/// The first type in a set. REQUIRES: the set is not empty.
constexpr DType FirstTileType(uint32_t types) {
  return static_cast<DType>(static_cast<int>(DType::kBlockQuant2) + std::countr_zero(types));
}

/// Parameters of the operation other than x and y.
struct ExpertsPlan {
  Tensor router;                           // [T, experts], float32
  const PackedExpert* packed = nullptr;    // [experts]
  int32_t top_k = 0, experts_per_row = 0;  // experts per row: routed ones; and including the shared one
  int32_t dense = 0;  // 1: ExpertsCall::dense is a further expert of every row, with the weight 1; only for one row
  bool normalised = false;
  RouterTraits traits;
  bool gated = true;       // an expert's MLP has a gate
  bool accumulate = true;  // y += instead of y =
  bool fixed = false;      // a row's bits must depend on nothing but the row; calls then have up to kFewExpertRows rows
  int64_t inner = 0, last_inner = 0;  // F of all experts but the last, and of the last, which may be the shared one
  // The sets of block-quantized types of the gates and ups, and of the output matrices (TileTypeBit); 0: all weights
  // have 16 bits.
  uint32_t in_types = 0, out_types = 0;

  bool in_tiles() const { return in_types != 0; }
  bool out_tiles() const { return out_types != 0; }
  /// Outputs of the first GEMM for an expert with this F: pairs of a gate and an up, or of two outputs without a gate.
  RINGSIDE_HOST_DEVICE int64_t Pairs(int64_t expert_inner) const { return gated ? expert_inner : expert_inner / 2; }
  /// The largest F.
  RINGSIDE_HOST_DEVICE int64_t widest() const { return inner > last_inner ? inner : last_inner; }

  friend bool operator==(const ExpertsPlan&, const ExpertsPlan&) = default;
};

/// Some of the rows routed to one expert: order[first ... first + count).
struct ExpertRows {
  int32_t expert, first, count, reserved;
};

/// The kernel path, which determines how many rows of an expert share one read of its weights.
enum class ExpertsPath : int32_t {
  kIntegers,       // kIntegerExpertRows; block-quantized weights of fewer than 8 bits, multiplied as integers
  kWholeIntegers,  // as kIntegers, each tile computed by a single warp
  kFew,            // kFewExpertRows
  kSeveral,        // kFewExpertRows; block-quantized weights, each tile computed by a single warp
  kMany,           // kManyExpertRows
};
constexpr int64_t kIntegerExpertRows = 4, kFewExpertRows = 16, kManyExpertRows = 64;
constexpr int kMaxRowExperts = 16, kMaxRowRouted = 256;  // experts of a row, and to select from, in row_experts.cu

/// A call for some rows. A pair is a row and one of its experts: pair row * experts_per_row + i has the i-th expert.
struct ExpertsCall {
  ExpertsPlan plan;
  ExpertsPath path = ExpertsPath::kFew;
  Activation activation = Activation::kSilu;
  Tensor x, y;               // [T, D]; x 16-bit, y float32
  PackedExpert dense = {};   // if plan.dense
  int32_t* ids = nullptr;    // [pairs], ascending within each row; not for few rows, but for one
  float* weights = nullptr;  // [pairs]
  int32_t* order = nullptr;  // [pairs]: pairs sorted by expert, then by row
  ExpertRows* groups = nullptr;
  int32_t group_count = 0;  // of groups; some may have no rows
  void* mid = nullptr;      // [pairs in `order`, widest]: activation(gate) * up
  float* parts = nullptr;   // [pairs, D]: outputs of the experts

  int64_t pairs() const { return x.rows * plan.experts_per_row; }
  static int64_t GroupRows(ExpertsPath path) {
    if (path == ExpertsPath::kIntegers || path == ExpertsPath::kWholeIntegers) return kIntegerExpertRows;
    return path == ExpertsPath::kMany ? kManyExpertRows : kFewExpertRows;
  }
  static int64_t GroupCount(const ExpertsPlan& plan, ExpertsPath path, int64_t rows) {
    const int64_t pairs = rows * plan.experts_per_row, max_groups = pairs / GroupRows(path) + plan.router.cols;
    return rows <= kFewExpertRows ? std::min(max_groups, pairs) : max_groups;
  }
};

}  // namespace ringside::cuda
