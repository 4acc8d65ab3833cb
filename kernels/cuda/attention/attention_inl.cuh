// Shared by the attention kernels: rotation, slab addressing, masking. Included by .cu files.
#pragma once

#include <climits>

#include "kernels/cuda/attention/attention_plan.h"
#include "kernels/cuda/device.cuh"

namespace ringside::cuda {

/// The elements of a pair (u, v) after a rotation. Only one of the products is rounded, the same in every kernel: keys
/// have the same bits whichever kernel stores them.
__device__ __forceinline__ float RotatedFirst(float u, float v, float cosine, float sine) {
  return fmaf(u, cosine, -__fmul_rn(v, sine));
}
__device__ __forceinline__ float RotatedSecond(float u, float v, float cosine, float sine) {
  return fmaf(u, sine, __fmul_rn(v, cosine));
}

/// Element d of a head (x[at] ... x[at + head_dim - 1]) rotated by the row's angles (Su et al. 2021). Branch-free, so
/// that many of these loads are in flight together.
template <class Q>
__device__ __forceinline__ float RotatedElement(const AttentionPlan& a, const Q* x, int64_t at, int d,
                                                const float* cosines, const float* sines, int64_t row) {
  const int half = a.rotary / 2, i = d - a.first_rotary;
  const bool rotates = i >= 0 && i < a.rotary;
  const int pair = a.adjacent_pairs ? i / 2 : i >= half ? i - half : i;
  const bool second = a.adjacent_pairs ? i % 2 != 0 : i >= half;
  const int other = !rotates ? i : a.adjacent_pairs ? i ^ 1 : second ? i - half : i + half;
  const float own = ToFloat(x[at + d]), partner = ToFloat(x[at + a.first_rotary + other]);
  const float cosine = rotates ? cosines[row * half + pair] : 1.0f, sine = rotates ? sines[row * half + pair] : 0.0f;
  return second ? RotatedSecond(partner, own, cosine, sine) : RotatedFirst(own, partner, cosine, sine);
}

/// The factor of a row's scores.
__device__ __forceinline__ float ScoreScale(const AttentionPlan& a, int64_t row) {
  return a.query_scales != nullptr ? a.scale * a.query_scales[row] : a.scale;
}
/// The factor of a rotated query's dimension.
__device__ __forceinline__ float QueryWeight(const AttentionPlan& a, int d) {
  return a.query_weights != nullptr ? a.query_weights[d] : 1.0f;
}

/// Calls body with a typed pointer to the queries, keys and values.
template <class Body>
__device__ __forceinline__ void WithQkv(const AttentionPlan& a, const Body& body) {
  if (a.qkv.dtype == DType::kBF16) {
    body(static_cast<const __nv_bfloat16*>(a.qkv.data));
  } else if (a.qkv.dtype == DType::kF16) {
    body(static_cast<const __half*>(a.qkv.data));
  } else {
    body(static_cast<const float*>(a.qkv.data));
  }
}

__device__ __forceinline__ int64_t QueryAt(const AttentionPlan& a, int64_t row, int head) {
  return row * a.qkv.stride + static_cast<int64_t>(head) * a.head_dim;
}
__device__ __forceinline__ int64_t KeyAt(const AttentionPlan& a, int64_t row, int kv_head) {
  return QueryAt(a, row, a.heads + kv_head);
}
__device__ __forceinline__ int64_t ValueAt(const AttentionPlan& a, int64_t row, int kv_head) {
  return QueryAt(a, row, a.heads + a.kv_heads + kv_head);
}

/// The row of a tile that query m belongs to; m < 128.
__device__ __forceinline__ int RowOfQuery(const AttentionPlan& a, int m) { return m * a.tile_heads_inverse >> 16; }

/// The dimensions of a pair that rotates together; dimensions past the rotated ones pair with their neighbours.
__device__ __forceinline__ int FirstOfPair(const AttentionPlan& a, int pair) {
  return a.adjacent_pairs || pair >= a.rotary / 2 ? 2 * pair : pair;
}
__device__ __forceinline__ int SecondOfPair(const AttentionPlan& a, int pair) {
  return a.adjacent_pairs || pair >= a.rotary / 2 ? 2 * pair + 1 : pair + a.rotary / 2;
}
/// A pair rotated by the row's angles (Su et al. 2021).
__device__ __forceinline__ float2 Rotated(const AttentionPlan& a, float u, float v, const float* cosines,
                                          const float* sines, int64_t row, int pair) {
  const int half = a.rotary / 2;
  const float cosine = pair < half ? cosines[row * half + pair] : 1.0f,
              sine = pair < half ? sines[row * half + pair] : 0;
  return float2{RotatedFirst(u, v, cosine, sine), RotatedSecond(u, v, cosine, sine)};
}

/// Rotates a pair in place.
__device__ __forceinline__ void Rotate(float& u, float& v, float cosine, float sine) {
  const float w = u;
  u = RotatedFirst(w, v, cosine, sine), v = RotatedSecond(w, v, cosine, sine);
}

/// Two adjacent pairs of a head, 2 task and 2 task + 1, with the cosines and sines of their angles. Few loads per
/// thread; requires that all dimensions rotate or none, and aligned rows.
struct RotaryQuad {
  float u[2], v[2];
  float2 cosine, sine;
};
__device__ __forceinline__ bool AllowsRotaryQuads(const AttentionPlan& a) {
  return (a.rotary == 0 || a.rotary == a.head_dim) && a.qkv.stride % 4 == 0 && a.qkv.dtype != DType::kF32 &&
         a.head_dim % 4 == 0 && reinterpret_cast<uintptr_t>(a.qkv.data) % 8 == 0;
}
/// Whether the elements of a pair are half a head apart rather than adjacent; for heads that rotate fully or not at
/// all.
__device__ __forceinline__ bool PairsAreHalves(const AttentionPlan& a) { return a.rotary > 0 && !a.adjacent_pairs; }

template <class Q>
__device__ __forceinline__ RotaryQuad LoadRotaryQuad(const AttentionPlan& a, const Q* x, int64_t at, int task,
                                                     const float* cosines, const float* sines, int64_t row) {
  const bool halves = PairsAreHalves(a);
  const int half = a.head_dim / 2;
  uint2 bits;
  bits.x = *reinterpret_cast<const uint32_t*>(x + at + (halves ? 2 * task : 4 * task));
  bits.y = *reinterpret_cast<const uint32_t*>(x + at + (halves ? half + 2 * task : 4 * task + 2));
  const Q* first = reinterpret_cast<const Q*>(&bits.x);
  const Q* second = reinterpret_cast<const Q*>(&bits.y);
  RotaryQuad out{{ToFloat(first[0]), halves ? ToFloat(first[1]) : ToFloat(second[0])},
                 {halves ? ToFloat(second[0]) : ToFloat(first[1]), ToFloat(second[1])},
                 {1, 1},
                 {0, 0}};
  if (a.rotary == 0) return out;
  out.cosine = *reinterpret_cast<const float2*>(cosines + row * half + 2 * task);
  out.sine = *reinterpret_cast<const float2*>(sines + row * half + 2 * task);
  return out;
}
/// Calls emit(dimension, value) for the four elements, rotated and scaled.
template <class Emit>
__device__ __forceinline__ void RotateQuad(const AttentionPlan& a, const RotaryQuad& pairs, int task, float scale,
                                           const Emit& emit) {
  const bool halves = PairsAreHalves(a);
  const float cosine[2] = {pairs.cosine.x, pairs.cosine.y}, sine[2] = {pairs.sine.x, pairs.sine.y};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float u = pairs.u[i] * scale, v = pairs.v[i] * scale;
    const int first = halves ? 2 * task + i : 4 * task + 2 * i;
    emit(first, RotatedFirst(u, v, cosine[i], sine[i]));
    emit(halves ? first + a.head_dim / 2 : first + 1, RotatedSecond(u, v, cosine[i], sine[i]));
  }
}

/// The factor that rescales a partial softmax to the largest running maximum.
__device__ __forceinline__ float RescaleFactor(float max_score, float running_max) {
  return running_max == -INFINITY ? 0.0f : Exp2(running_max - max_score);
}

/// Number of tiles before the ring.
__device__ __forceinline__ int PinnedTiles(int pinned) { return (pinned + 15) / 16; }
__device__ __forceinline__ char* TileAddress(const AttentionPlan& a, void* slab, int physical, int kv_head) {
  return static_cast<char*>(slab) + a.layer_offset + physical * a.tile_bytes + kv_head * a.head_tile_bytes;
}
/// Slot of position p of a row's sequence: physical tile * 16 + lane.
__device__ __forceinline__ int SlotOf(const AttentionPlan& a, int p, int pinned) {
  if (p < pinned) return p;
  return (PinnedTiles(pinned) + (p - pinned) / 16 % a.ring_tiles) * 16 + (p - pinned) % 16;
}
/// The keys of the tile that holds position p of a row's sequence, for one head; its values follow.
__device__ __forceinline__ char* KeysAt(const AttentionPlan& a, const StagedRow& row, int p, int kv_head) {
  if (p >= row.branch) return TileAddress(a, row.slab, SlotOf(a, p - row.branch, 0) / 16, kv_head);
  return TileAddress(a, const_cast<void*>(row.history), SlotOf(a, p, row.pinned) / 16, kv_head);
}
/// The position's lane within its tile; branches start at tile boundaries.
__device__ __forceinline__ int LaneOf(int p, int pinned) { return (p < pinned ? p : p - pinned) % 16; }

/// The physical index of a row tile's i-th pinned or i-th ring tile of keys.
__device__ __forceinline__ int PhysicalTile(const AttentionPlan& a, const StagedTile& tile, bool is_pinned, int i) {
  const int in_ring = tile.ring_begin + i;
  return is_pinned ? i : PinnedTiles(tile.pinned) + (in_ring >= a.ring_tiles ? in_ring - a.ring_tiles : in_ring);
}
/// The physical index in a branch's own slab of the i-th ring tile.
__device__ __forceinline__ int OwnTile(const AttentionPlan& a, const StagedTile& tile, int i) {
  const int own = tile.own_begin + i - tile.own;
  return own >= a.ring_tiles ? own - a.ring_tiles : own;
}
/// As KeysAt, for the newest position that a row tile sees; its own slab has it.
__device__ __forceinline__ char* NewestKeys(const AttentionPlan& a, const StagedTile& tile, int kv_head) {
  const int of = tile.ring_tiles - 1;
  const int physical = tile.last < tile.pinned ? tile.last / 16
                       : of >= tile.own        ? OwnTile(a, tile, of)
                                               : PhysicalTile(a, tile, false, of);
  return TileAddress(a, tile.slab, physical, kv_head);
}
/// The address of that tile. `slab` is the address of the head's tile 0 in this layer.
__device__ __forceinline__ const char* KeyTile(const AttentionPlan& a, const StagedTile& tile, const char* slab,
                                               bool is_pinned, int i) {
  return slab + PhysicalTile(a, tile, is_pinned, i) * a.tile_bytes;
}

/// The positions that a lane's two queries (quad and quad + 8 of a warp's 16) see among the ring or the pinned keys.
struct QueryLimits {
  int from[2], to[2];
};
struct MaskLimits {
  QueryLimits ring, pinned;
  __device__ __forceinline__ QueryLimits Of(bool is_pinned) const {
    return {{is_pinned ? pinned.from[0] : ring.from[0], is_pinned ? pinned.from[1] : ring.from[1]},
            {is_pinned ? pinned.to[0] : ring.to[0], is_pinned ? pinned.to[1] : ring.to[1]}};
  }
};
/// The oldest pinned key that a row sees.
__device__ __forceinline__ int FirstPinned(const AttentionPlan& a, const StagedRow& row) {
  if (a.window == 0) return 0;
  return a.chunked != 0 ? row.pinned_at - row.pinned_at % a.window : max(0, row.pinned_at - a.window + 1);
}
/// Limits of `queries` queries from the tile's row `first_row` on; queries past them see nothing.
template <bool kTraits>
__device__ __forceinline__ MaskLimits LimitsOf(const AttentionPlan& a, const StagedTile& tile, int first_row,
                                               int queries, int lane) {
  MaskLimits out;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int m = lane / 4 + 8 * h, row = first_row + RowOfQuery(a, m), t = tile.position + row;
    const bool real = m < queries;
    out.ring.from[h] = INT_MAX;
    if (real && t >= tile.pinned) {
      out.ring.from[h] = tile.rows == 1 ? tile.first : a.rows[tile.row + row].first_live;
    }
    out.ring.to[h] = !real ? -1 : tile.rows == 1 ? tile.last : a.rows[tile.row + row].last_seen;
    out.pinned.from[h] = !real ? INT_MAX : kTraits ? FirstPinned(a, a.rows[tile.row + row]) : 0;
    const bool all_pinned = kTraits && a.seen == VisibleKeys::kPinned && real;
    out.pinned.to[h] = all_pinned ? tile.pinned - 1 : min(out.ring.to[h], tile.pinned - 1);
  }
  return out;
}

constexpr float kLog2E = 1.44269504f;  // scores are scaled by this, so that exp2 replaces exp

/// cap tanh(x / cap) by the fast exponential, accurate to a few ulps of the cap.
__device__ __forceinline__ float SoftCapped(float x, float cap) {
  const float falls = Exp2(__fdividef(fabsf(x), cap) * (-2 * kLog2E));
  return copysignf(cap * __fdividef(1 - falls, 1 + falls), x);
}
/// Modifies the score of a query at `position` and a key, in the units of the score.
struct ScoreModifier {
  float cap, slope;
  int position;
  const float* biases;  // of the head; points at distance 0
  int bias_reach;
  float unit;  // factor of the scores' scale; multiplies the biases
  __device__ __forceinline__ float operator()(float score, int key) const {
    if (cap > 0) score = SoftCapped(score, cap);
    if (slope > 0 || slope < 0) score -= slope * static_cast<float>(position - key);
    if (biases == nullptr) return score;
    return score + unit * __ldg(biases + max(-bias_reach, min(bias_reach, key - position)));
  }
};
/// ScoreModifier::biases of a head.
__device__ __forceinline__ const float* BiasesOf(const AttentionPlan& a, int head) {
  return a.biases == nullptr ? nullptr : a.biases + head * (2 * a.bias_reach + 31) + a.bias_reach + 15;
}
/// Modifiers of a lane's two queries, for ring or pinned keys.
struct QueryModifiers {
  ScoreModifier of[2];
};
struct MaskModifiers {
  QueryModifiers ring, pinned;
  __device__ __forceinline__ QueryModifiers Of(bool is_pinned) const { return is_pinned ? pinned : ring; }
};
/// The head of a tile's query m.
__device__ __forceinline__ int HeadOfQuery(const AttentionPlan& a, int first_head, int m) {
  return first_head + m - RowOfQuery(a, m) * a.tile_heads;
}
/// Modifiers of the queries of LimitsOf, for scores scaled by kLog2E.
__device__ __forceinline__ MaskModifiers ModifiersOf(const AttentionPlan& a, const StagedTile& tile, int first_row,
                                                     int first_head, int queries, int lane) {
  MaskModifiers out;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int m = lane / 4 + 8 * h, row = first_row + RowOfQuery(a, m);
    const int head = HeadOfQuery(a, first_head, m);
    const float slope = a.slopes != nullptr ? a.slopes[head] * kLog2E : 0.0f;
    out.ring.of[h] = {a.soft_cap * kLog2E, slope, tile.position + row, BiasesOf(a, head), a.bias_reach, kLog2E};
    out.pinned.of[h] = out.ring.of[h];
    if (m < queries) out.pinned.of[h].position = a.rows[tile.row + row].pinned_at;
  }
  return out;
}

}  // namespace ringside::cuda
