// Attention over a paged ring cache, per tile: some rows of a segment and query heads that share one key/value head.
// The arithmetic of a query does not depend on the tile, the chunk or the ring's size:
//
//   keys are divided into blocks of 256 positions, counted from position 0 for pinned keys and from S for ring keys;
//   score  = sum over dimensions, in order, by fma, of key * (rotated query * scale); then the modifiers of
//   ScoreTraits.
//            The scale includes the query's factors (AttentionArgs)
//   m_b    = largest score of the block's visible keys;  p = exp(score - m_b), unnormalized
//   l_b    = sum of p: 16 lanes (key mod 16) in ascending order, then the fixed tree
//   o_b    = sum of p * value, keys ascending, by fma
//   blocks are merged in order: m' = max(m, m_b), a = exp(m - m'), b = exp(m_b - m'),
//   l = fma(l_b, b, l * a), o = fma(o_b, b, o * a); the first block is copied
//   a sink is merged last, as a block with l_b = 1 and o_b = 0
//   out    = o * (1 / l) + 0
//
// (FlashAttention's online softmax, Dao et al. 2022, with fixed blocks.) A masked key never enters the arithmetic: its
// score is replaced before the maximum and its value is not read, so it may hold anything, NaN included. Included by
// one file per instruction set.
// THREAD: any.
#pragma once

#include "kernels/cpu/attention_products_inl.h"
#include "kernels/cpu/rows_inl.h"

namespace ringside::cpu::RINGSIDE_LANES {
namespace {

struct AttentionScratch {
  alignas(64) float own[kMaxHeadDim * kMaxTileQueries];  // [d][queries], scaled
  alignas(64) float pinned[kMaxHeadDim * kMaxTileQueries];
  alignas(64) float probabilities[kMaxTileQueries * kKeyBlock];  // scores, then probabilities
  alignas(64) float block[kMaxTileQueries * kMaxHeadDim];        // o_b
  alignas(64) float merged[kMaxTileQueries * kMaxHeadDim];       // o
  alignas(64) float keys[kMaxHeadDim * 16];                      // [d][16], of a tile that is stored token by token
  float block_max[kMaxTileQueries], block_sum[kMaxTileQueries];
  float merged_max[kMaxTileQueries], merged_sum[kMaxTileQueries];
  int64_t first[kMaxTileQueries], last[kMaxTileQueries];  // visible keys of the block, relative to its start
};

/// Number of tiles before the ring. As KvShape::PinnedTiles, which these files must not call.
LANES_INLINE int64_t PinnedTiles(int64_t pinned) { return (pinned + 15) / 16; }

constexpr float kNothing = -__builtin_huge_valf();  // m of a query that has seen no key yet

/// y = x rotated, [head_dim]: (a, b) -> (fma(a, cos, -(b sin)), fma(a, sin, b cos)).
void RotateHead(const AttentionCall& call, const float* x, const float* cosine, const float* sine, float* y) {
  for (int64_t i = 0; i < call.first_rotary; ++i) y[i] = x[i];
  x += call.first_rotary, y += call.first_rotary;
  const int64_t half = call.rotary / 2;
  int64_t j = 0;
  for (; j + 16 <= half; j += 16) {
    F32x16 a, b;
    if (call.adjacent_pairs) {
      Deinterleave(x + 2 * j, &a, &b);
    } else {
      a = Load(x + j), b = Load(x + half + j);
    }
    const F32x16 c = Load(cosine + j), s = Load(sine + j);
    const F32x16 u = Fma(a, c, Sub(Zero(), Mul(b, s))), v = Fma(a, s, Mul(b, c));
    if (call.adjacent_pairs) {
      Interleave(u, v, y + 2 * j);
    } else {
      Store(y + j, u), Store(y + half + j, v);
    }
  }
  for (; j < half; ++j) {
    const int64_t p = call.adjacent_pairs ? 2 * j : j, q = call.adjacent_pairs ? 2 * j + 1 : half + j;
    const float a = x[p], b = x[q], c = cosine[j], s = sine[j];
    y[p] = __builtin_fmaf(a, c, 0.0f - b * s);
    y[q] = __builtin_fmaf(a, s, b * c);
  }
  for (int64_t i = call.rotary; i < call.head_dim - call.first_rotary; ++i) y[i] = x[i];
}

// Row r of a tile: its index in the step, its position and the oldest ring position that it sees.
LANES_INLINE int64_t StepRow(const AttentionTile& tile, int64_t r) {
  return tile.gathered != nullptr ? tile.gathered[r].row : tile.row + r;
}
LANES_INLINE int64_t PositionOf(const AttentionTile& tile, int64_t r) {
  return tile.gathered != nullptr ? tile.gathered[r].position : tile.position + r;
}
LANES_INLINE int64_t FirstLiveOf(const AttentionTile& tile, int64_t r) {
  return tile.gathered != nullptr ? tile.gathered[r].first_live : tile.first_live[r];
}

/// The newest position that row r sees; gathered rows are asked for older ones only.
LANES_INLINE int64_t LastSeenOf(const AttentionTile& tile, int64_t r) {
  return tile.gathered == nullptr && tile.last_seen != nullptr ? tile.last_seen[r] : PositionOf(tile, r);
}

/// The tile's queries, rotated and scaled, as [d][queries].
void PackQueries(const AttentionCall& call, const AttentionTile& tile, const float* cosine, const float* sine,
                 float* out) {
  const int64_t queries = tile.rows * tile.heads, half = call.rotary / 2;
  float rotated[kMaxHeadDim];
  for (int64_t i = 0; i < queries; ++i) {
    const int64_t row = StepRow(tile, i / tile.heads), head = tile.head + i % tile.heads;
    const float* q = call.qkv + row * call.qkv_stride + head * call.head_dim;
    RotateHead(call, q, cosine + row * half, sine + row * half, rotated);
    const float scale = call.query_scales != nullptr ? call.scores.scale * call.query_scales[row] : call.scores.scale;
    for (int64_t d = 0; d < call.head_dim; ++d) {
      const float factor = call.query_weights != nullptr ? scale * call.query_weights[d] : scale;
      out[d * queries + i] = rotated[d] * factor;
    }
  }
}

/// Position of row r of a tile; relative to its pinned keys it is c, their distance in the cache.
LANES_INLINE int64_t QueryPosition(const AttentionTile& tile, int64_t r, bool pinned) {
  const int64_t t = PositionOf(tile, r);
  return pinned && t >= tile.pinned ? tile.pinned + t - FirstLiveOf(tile, r) : t;
}

/// Finds the keys of a block that each query sees; false if there are none. `base` is the block's first position.
bool FindVisible(const AttentionCall& call, const AttentionTile& tile, bool pinned, int64_t base, AttentionScratch* s) {
  bool any = false;
  for (int64_t r = 0; r < tile.rows; ++r) {
    const int64_t t = PositionOf(tile, r);
    int64_t first = pinned ? 0 : FirstLiveOf(tile, r) - base;
    if (call.scores.window > 0) {
      const int64_t query = QueryPosition(tile, r, pinned), window = call.scores.window;
      const int64_t oldest = (call.scores.chunked ? query - query % window : query - window + 1) - base;
      if (first < oldest) first = oldest;
    }
    int64_t last = (pinned && (tile.pinned <= t || call.all_pinned) ? tile.pinned : LastSeenOf(tile, r) + 1) - base;
    if (first < 0) first = 0;
    if (last > kKeyBlock) last = kKeyBlock;
    any = any || first < last;
    if (first >= last) first = last = 0;
    for (int64_t h = 0; h < tile.heads; ++h) {
      s->first[r * tile.heads + h] = first;
      s->last[r * tile.heads + h] = last;
    }
  }
  return any;
}

/// Applies soft caps, slopes and biases to a query's visible scores. `base` is the block's first position.
void ModifyScores(const AttentionCall& call, const AttentionTile& tile, bool pinned, int64_t base, int64_t query,
                  AttentionScratch* s) {
  static constexpr float kLane[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const ScoreTraits& traits = call.scores;
  const float slope = traits.slopes != nullptr ? traits.slopes[tile.head + query % tile.heads] : 0.0f;
  const int64_t ahead = base - QueryPosition(tile, query / tile.heads, pinned);  // minus D of the block's first key
  const float* biases = nullptr;                                                 // of the head; points at D = 0
  if (traits.biases != nullptr) {
    biases = traits.biases + (tile.head + query % tile.heads) * (2 * traits.bias_reach + 31) + traits.bias_reach + 15;
  }
  float* p = s->probabilities + query * kKeyBlock;
  for (int64_t j = s->first[query] / 16 * 16; j < s->last[query]; j += 16) {
    F32x16 score = Load(p + j);
    if (traits.soft_cap > 0) score = SoftCapped(score, Set(traits.soft_cap));
    if (traits.slopes != nullptr) {
      score = Fma(Set(slope), Add(Load(kLane), Set(static_cast<float>(ahead + j))), score);
    }
    if (biases != nullptr) {
      int64_t behind =
          ahead + j;  // minus D of the first of these keys; clamped, because all larger distances have the same bias
      if (behind < -traits.bias_reach - 15) behind = -traits.bias_reach - 15;
      if (behind > traits.bias_reach) behind = traits.bias_reach;
      score = Add(score, Load(biases + behind));
    }
    Store(p + j, score);
  }
}

/// Computes probabilities = exp(score - m_b) for visible keys, 0 for the others in the same tiles; m_b and l_b.
void SoftmaxBlock(int64_t query, AttentionScratch* s) {
  const int64_t first = s->first[query], last = s->last[query];
  float* p = s->probabilities + query * kKeyBlock;
  F32x16 largest = Set(kNothing);
  for (int64_t j = first / 16 * 16; j < last; j += 16) {
    const F32x16 score =
        KeepLanes(Load(p + j), first > j ? first - j : 0, last - j < 16 ? last - j : 16, Set(kNothing));
    Store(p + j, score);
    largest = Max(score, largest);
  }
  const float max = Largest(largest);
  F32x16 sum = Zero();
  for (int64_t j = first / 16 * 16; j < last; j += 16) {
    const F32x16 probability = Exp(Sub(Load(p + j), Set(max)));
    Store(p + j, probability);
    sum = Add(sum, probability);
  }
  s->block_max[query] = max;
  s->block_sum[query] = Sum(sum);
}

/// o_b: keys that all queries see together, the others one query at a time.
void SumValues(const AttentionCall& call, const uint8_t* const* tiles, int64_t queries, AttentionScratch* s) {
  int64_t first = 0, last = kKeyBlock;
  for (int64_t i = 0; i < queries; ++i) {
    if (s->first[i] > first) first = s->first[i];
    if (s->last[i] < last) last = s->last[i];
  }
  const bool together = first < last;
  for (int64_t i = 0; i < queries; ++i) {
    AddValues(call, tiles, s->first[i], together ? first : s->last[i], 1, s->probabilities + i * kKeyBlock,
              s->block + i * kMaxHeadDim);
  }
  if (!together) return;
  AddValues(call, tiles, first, last, queries, s->probabilities, s->block);
  for (int64_t i = 0; i < queries; ++i) {
    AddValues(call, tiles, last, s->last[i], 1, s->probabilities + i * kKeyBlock, s->block + i * kMaxHeadDim);
  }
}

/// m_b, l_b, o_b of every query for one block; false if no query sees any of its keys.
bool ComputeBlock(const AttentionCall& call, const AttentionTile& tile, int64_t block, AttentionScratch* s) {
  const bool pinned = block < tile.pinned_blocks;
  const int64_t index = pinned ? block : tile.first_ring_block + block - tile.pinned_blocks;
  const int64_t queries = tile.rows * tile.heads;
  const int64_t base = index * kKeyBlock + (pinned ? 0 : tile.pinned);
  if (!FindVisible(call, tile, pinned, base, s)) return false;
  int64_t first = kKeyBlock, last = 0;
  for (int64_t i = 0; i < queries; ++i) {
    if (s->first[i] == s->last[i]) continue;
    if (s->first[i] < first) first = s->first[i];
    if (s->last[i] > last) last = s->last[i];
  }
  const uint8_t* tiles[kKeyBlock / 16];
  const int64_t first_tile = first / 16, last_tile = (last + 15) / 16;
  for (int64_t j = first_tile; j < last_tile; ++j) {
    const int64_t t = index * (kKeyBlock / 16) + j;
    const bool own = !pinned && t >= tile.first_own;
    const int64_t physical = pinned ? t
                             : own  ? (t - tile.first_own) % call.ring_tiles
                                    : PinnedTiles(tile.pinned) + t % call.ring_tiles;
    tiles[j] = (own ? tile.slab : tile.history) + call.layer_offset + physical * call.tile_bytes +
               tile.kv_head * call.head_tile_bytes;
  }
  Scores(call, tiles, first_tile, last_tile, queries, pinned ? s->pinned : s->own, s->keys, s->probabilities);
  const ScoreTraits& traits = call.scores;
  const bool modified = traits.soft_cap > 0 || traits.slopes != nullptr || traits.biases != nullptr;
  for (int64_t i = 0; i < queries; ++i) {
    if (modified) ModifyScores(call, tile, pinned, base, i, s);
    if (s->first[i] != s->last[i]) SoftmaxBlock(i, s);
    for (int64_t d = 0; d < call.value_dim; d += 16) Store(s->block + i * kMaxHeadDim + d, Zero());
  }
  SumValues(call, tiles, queries, s);
  return true;
}

/// Merges a query's (m, l, o) with its next block. o and o_b have `padded` floats, a multiple of 16.
LANES_INLINE void MergeBlock(int64_t padded, float block_max, float block_sum, const float* block, float* max,
                             float* sum, float* o) {
  if (block_max == kNothing) return;  // every score overflowed to -infinity
  if (*max == kNothing) {
    *max = block_max, *sum = block_sum;
    for (int64_t d = 0; d < padded; d += 16) Store(o + d, Load(block + d));
    return;
  }
  const float larger = *max > block_max ? *max : block_max;
  alignas(64) float scales[16];
  Store(scales, Exp(KeepLanes(Set(*max - larger), 0, 1, Set(block_max - larger))));
  const F32x16 a = Set(scales[0]), b = Set(scales[1]);
  *max = larger;
  *sum = __builtin_fmaf(block_sum, scales[1], *sum * scales[0]);
  for (int64_t d = 0; d < padded; d += 16) Store(o + d, Fma(Load(block + d), b, Mul(Load(o + d), a)));
}

/// Merges a query's (m, l, o) with its head's sink, if there is one. `nothing` has `padded` zeros.
LANES_INLINE void MergeSink(const AttentionCall& call, const AttentionTile& tile, int64_t query, int64_t padded,
                            const float* nothing, float* max, float* sum, float* o) {
  if (call.scores.sinks == nullptr) return;
  MergeBlock(padded, call.scores.sinks[tile.head + query % tile.heads], 1.0f, nothing, max, sum, o);
}

/// out = o / l. Adding 0 turns -0 into +0, so that adding a zero probability and skipping it give equal bits.
LANES_INLINE void WriteOut(const AttentionCall& call, const AttentionTile& tile, int64_t query, float sum,
                           const float* o) {
  const int64_t row = tile.row + query / tile.heads, head = tile.head + query % tile.heads;
  float* out = call.out + row * call.out_stride + head * call.value_dim;
  const F32x16 inverse = Set(1.0f / sum);
  EachRun(call.value_dim,
          [&](int64_t d, int64_t n) LANES_LAMBDA { StoreRun(out + d, Add(Mul(Load(o + d), inverse), Zero()), n); });
}

void PackTile(const AttentionCall& call, const AttentionTile& tile, bool own, bool pinned, AttentionScratch* s) {
  if (own) PackQueries(call, tile, call.own_cos, call.own_sin, s->own);
  if (pinned) PackQueries(call, tile, call.pinned_cos, call.pinned_sin, s->pinned);
}

void AttendTile(const AttentionCall& call, const AttentionTile& tile) {
  AttentionScratch s;
  const int64_t queries = tile.rows * tile.heads, padded = (call.value_dim + 15) / 16 * 16;
  PackTile(call, tile, tile.ring_blocks > 0, tile.pinned_blocks > 0, &s);
  for (int64_t i = 0; i < queries; ++i) {
    s.merged_max[i] = kNothing, s.merged_sum[i] = 0;
    for (int64_t d = 0; d < padded; d += 16) Store(s.merged + i * kMaxHeadDim + d, Zero());
  }
  for (int64_t b = 0; b < tile.pinned_blocks + tile.ring_blocks; ++b) {
    if (!ComputeBlock(call, tile, b, &s)) continue;
    for (int64_t i = 0; i < queries; ++i) {
      if (s.first[i] == s.last[i]) continue;
      MergeBlock(padded, s.block_max[i], s.block_sum[i], s.block + i * kMaxHeadDim, &s.merged_max[i], &s.merged_sum[i],
                 s.merged + i * kMaxHeadDim);
    }
  }
  for (int64_t d = 0; d < padded; d += 16) Store(s.block + d, Zero());
  for (int64_t i = 0; i < queries; ++i) {
    MergeSink(call, tile, i, padded, s.block, &s.merged_max[i], &s.merged_sum[i], s.merged + i * kMaxHeadDim);
    WriteOut(call, tile, i, s.merged_sum[i], s.merged + i * kMaxHeadDim);
  }
}

LANES_INLINE int64_t PartialFloats(const AttentionCall& call) { return (call.value_dim + 15) / 16 * 16 + 16; }

void AttendBlock(const AttentionCall& call, const AttentionTile& tile, int64_t block, float* partial) {
  AttentionScratch s;
  const int64_t queries = tile.rows * tile.heads, padded = (call.value_dim + 15) / 16 * 16;
  const bool pinned = block < tile.pinned_blocks;
  PackTile(call, tile, !pinned, pinned, &s);
  const bool any = ComputeBlock(call, tile, block, &s);
  for (int64_t i = 0; i < queries; ++i) {
    float* to = partial + i * PartialFloats(call);
    if (tile.gathered != nullptr) {
      const GatheredRow& row = tile.gathered[i / tile.heads];
      to = partial + row.partial + block * row.block_floats + i % tile.heads * PartialFloats(call);
    }
    const bool seen = any && s.first[i] != s.last[i];
    to[padded] = seen ? s.block_max[i] : kNothing;
    if (!seen) continue;
    to[padded + 1] = s.block_sum[i];
    for (int64_t d = 0; d < padded; d += 16) Store(to + d, Load(s.block + i * kMaxHeadDim + d));
  }
}

void MergeBlocks(const AttentionCall& call, const AttentionTile& tile, const float* partials) {
  const int64_t queries = tile.rows * tile.heads, padded = (call.value_dim + 15) / 16 * 16;
  alignas(64) float o[kMaxHeadDim], nothing[kMaxHeadDim];
  for (int64_t d = 0; d < padded; d += 16) Store(nothing + d, Zero());
  for (int64_t i = 0; i < queries; ++i) {
    float max = kNothing, sum = 0;
    for (int64_t d = 0; d < padded; d += 16) Store(o + d, Zero());
    for (int64_t b = 0; b < tile.pinned_blocks + tile.ring_blocks; ++b) {
      const float* p = partials + (b * queries + i) * PartialFloats(call);
      MergeBlock(padded, p[padded], p[padded + 1], p, &max, &sum, o);
    }
    MergeSink(call, tile, i, padded, nothing, &max, &sum, o);
    WriteOut(call, tile, i, sum, o);
  }
}

void StoreRows(const AttentionCall& call, uint8_t* slab, int64_t row, int64_t rows, int64_t position, int64_t pinned) {
  const int64_t d = call.head_dim, half = call.rotary / 2;
  float rotated[kMaxHeadDim];
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t p = position + r, ring = (p - pinned) % (16 * call.ring_tiles);
    const int64_t slot = p < pinned ? p : 16 * PinnedTiles(pinned) + ring;
    for (int64_t g = 0; g < call.kv_heads; ++g) {
      const float* key = call.qkv + (row + r) * call.qkv_stride + (call.heads + g) * d;
      uint8_t* keys = slab + call.layer_offset + slot / 16 * call.tile_bytes + g * call.head_tile_bytes;
      RotateHead(call, key, call.own_cos + (row + r) * half, call.own_sin + (row + r) * half, rotated);
      if (call.latent) {
        StoreValue(call.kv_dtype, rotated, d, keys + slot % 16 * d * call.element_bytes);
        continue;
      }
      StoreKey(call.kv_dtype, rotated, d, slot % 16, keys);
      StoreValue(call.kv_dtype, key + call.kv_heads * d, d,
                 keys + ValuesOffset(call) + slot % 16 * d * call.element_bytes);
    }
  }
}

}  // namespace
}  // namespace ringside::cpu::RINGSIDE_LANES
