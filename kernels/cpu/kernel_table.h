// The kernels of one instruction set: plain functions over raw memory, one table per instruction set, selected at run
// time. The backend (cpu_backend.cpp) checks arguments and divides the work; a function here computes its piece on the
// calling thread and owns nothing. Files compiled for an instruction set include this header and use no inline function
// from it or from the standard library, so that no wide instruction can leak into code that other machines run.
#pragma once

#include <cstdint>

#include "kernels/activation.h"
#include "kernels/recurrence.h"
#include "kernels/score_traits.h"
#include "kernels/tensor.h"

namespace ringside::cpu {

constexpr int64_t kLanes = 16;           // outputs per panel, keys per tile
constexpr int64_t kBlock = 32;           // activations that share a scale
constexpr int64_t kRowTile = 16;         // rows whose activations are interleaved
constexpr int64_t kMaxPieceRows = 64;    // maximum rows of a LinearPiece
constexpr int64_t kKeyBlock = 256;       // keys per softmax block
constexpr int64_t kMaxTileQueries = 12;  // (row, head) pairs that share key and value loads
constexpr int64_t kMaxHeadDim = 576;     // a latent of 512 and 64 rotated dimensions

/// 32 activations as int8: x ~ scale * q, where amax is the largest magnitude, scale = amax / 127 and q =
/// round_to_even(x * (127 / amax)). A block whose amax is below 1e-30 is all zero. Rows are interleaved in tiles of up
/// to 16: block b of row i of a tile with m rows is at tile[b * m + i], and tile t starts at block 16 * t * (cols /
/// 32).
struct ActivationBlock {
  int8_t q[kBlock];
  float scale;
  float scaled_sum;   // scale * sum of q
  int32_t minus_sum;  // -(sum of q)
  int32_t minus_low;  // -(sum of the first 16 q)
};
static_assert(sizeof(ActivationBlock) == 48);

/// Panels [first_panel, last_panel) of one weight times rows [first_row, last_row); first_row is a multiple of 16.
struct LinearPiece {
  DType dtype;
  const uint8_t* panels;  // of the weight
  int64_t outputs, cols;  // n, k
  int64_t first_panel, last_panel;
  int64_t first_row, last_row, all_rows;
  const float* x;  // [all_rows, k], for float weights
  int64_t x_stride;
  const ActivationBlock* activations;  // for quantized weights
  const float* bias;                   // of the weight's first output, or null
  float* y;                            // row 0, the weight's first output
  int64_t y_stride;
  bool accumulate;
};

struct AttentionCall {
  const float* qkv;
  int64_t qkv_stride;
  float* out;
  int64_t out_stride;
  int64_t heads, kv_heads, head_dim, rotary, first_rotary;
  int64_t value_dim;
  bool latent;  // KvShape::latent_dim: values are a part of the keys, which are stored token by token
  bool adjacent_pairs;
  const float *own_cos, *own_sin, *pinned_cos, *pinned_sin;
  ScoreTraits scores;
  const float *query_weights, *query_scales;
  bool all_pinned;  // a row also sees pinned keys after its own
  DType kv_dtype;
  int64_t element_bytes, head_tile_bytes, tile_bytes;
  int64_t layer_offset, ring_tiles;
};

/// A row of an AttentionTile whose rows belong to several segments, and the place of its partial results: of block b at
/// `partial` + b * `block_floats`.
struct GatheredRow {
  int64_t row, position, first_live;
  int64_t partial, block_floats;
};

/// Rows of one segment, or of several with a shared prefix, and query heads of one key/value head that are computed
/// together.
struct AttentionTile {
  const GatheredRow* gathered;  // [rows] if the rows belong to several segments; then row, position and first_live are
                                // unused. Otherwise null
  const int64_t* first_live;    // of the tile's first row
  const int64_t* last_seen;     // of the tile's first row, or null; unused with `gathered`
  const uint8_t* slab;
  const uint8_t* history;  // slab with pinned tiles and ring tiles before `first_own`; without a branch, `slab`
  int64_t first_own;       // first ring tile stored in `slab`; without a branch past all tiles
  int64_t row;             // of the tile's first row, in the step
  int64_t rows;
  int64_t position;  // of the tile's first row
  int64_t pinned;
  int64_t kv_head;
  int64_t head, heads;    // query heads [head, head + heads)
  int64_t pinned_blocks;  // key blocks: these come first
  int64_t first_ring_block, ring_blocks;
  int64_t shared_blocks;  // the first blocks, which tiles with gathered rows compute
  int64_t partial;        // offset of its first partial result, if its blocks are computed separately
};

/// RecurrenceArgs, with all offsets in floats.
struct RecurrenceCall {
  bool corrects, decays_channels, has_state;  // kDeltaNet and kKda; kKda; all but kConvolution
  bool alternates;
  float largest_beta;
  int64_t key_heads, value_heads, key_size, value_size, channels, kernel, decays;
  int64_t query_channel, key_channel, value_channel;
  int64_t row_floats, state_floats, key_in_row, update_in_row, decay_in_row;
  RecurrenceWeights weights;
  const float *x, *rates, *betas;
  int64_t x_stride, rates_stride, betas_stride;
  float* mixed;  // convolved channels, then G, then b
  int64_t mixed_stride;
  float* out;
  int64_t out_stride;
  float* products;  // [T][key_heads][2][StateShape::kChunk]: k_i . k_t, k_i . q_t
};

struct BoundaryWrite {
  int64_t position;
  float* boundary;
};

/// A segment's rows and its state in one layer.
struct RecurrenceSegment {
  int64_t row, rows, position;
  const float* boundary;  // null: zeros
  float* tail;            // [StateShape::kChunk][row_floats]
  const BoundaryWrite* writes;
};

struct KernelTable {
  const char* name;
  // rows [first, last) of the step; first is a multiple of 16
  void (*quantize)(const float* x, int64_t stride, int64_t first, int64_t last, int64_t all_rows, int64_t cols,
                   ActivationBlock* out);
  void (*linear)(const LinearPiece& piece);
  void (*rms_norm)(const float* x, const float* weight, float eps, int64_t n, float* y);
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float eps, int64_t n, float* y);
  void (*multiply_activated)(const float* gate, const float* up, Activation activation, int64_t n, float* y);
  void (*activate)(float* x, int64_t n, Activation activation);
  void (*soft_cap)(float* x, int64_t n, float cap);
  /// Stores keys and values of rows [row, row + rows) of the step in `slab`, at positions from `position` on.
  void (*store_rows)(const AttentionCall& call, uint8_t* slab, int64_t row, int64_t rows, int64_t position,
                     int64_t pinned);
  /// All blocks of a tile, to call.out.
  void (*attend)(const AttentionCall& call, const AttentionTile& tile);
  /// One block of a tile: per query value_dim sums, then the largest score, then the sum of probabilities.
  void (*attend_block)(const AttentionCall& call, const AttentionTile& tile, int64_t block, float* partial);
  /// Merges the blocks' results in block order, to call.out. Block b is at partials + b * PartialFloats.
  void (*merge_blocks)(const AttentionCall& call, const AttentionTile& tile, const float* partials);
  void (*gate)(const float* gate, GateKind kind, int64_t n, float* y);
  /// The steps of kernels/recurrence.h, each for a row of the segment, or all. First the convolution of a row, the
  /// norms of its q and k, and its g and b, to `mixed`, or to `out` if there is no state;
  void (*convolve)(const RecurrenceCall& call, const RecurrenceSegment& segment, int64_t row);
  /// then G of all rows, in place of g;
  void (*sum_decays)(const RecurrenceCall& call, const RecurrenceSegment& segment);
  /// then the products of a row's k and q with the keys of its chunk;
  void (*multiply_keys)(const RecurrenceCall& call, const RecurrenceSegment& segment, int64_t row, int64_t key_head);
  /// then u, o and the boundary states of all rows. Stores u of the last chunk in the tail.
  void (*update_state)(const RecurrenceCall& call, const RecurrenceSegment& segment, int64_t head);
};

// Each returns a constant that is defined in its own source file. Those after the first exist only in builds for
// x86-64 and for AArch64.
namespace portable {
const KernelTable& Table();
}
namespace avx2 {
const KernelTable& Table();
}
namespace avx_vnni {
const KernelTable& Table();
}
namespace avx512 {
const KernelTable& Table();
}
namespace avx512_vnni {
const KernelTable& Table();
}
namespace amx {
const KernelTable& Table();
}
namespace neon {
const KernelTable& Table();
}
namespace neon_dotprod {
const KernelTable& Table();
}
namespace neon_i8mm {
const KernelTable& Table();
}

}  // namespace ringside::cpu
