// The two matrix products of attention over tiles of 16 cached positions: scores (a lane is a key) and sums of values
// (a lane is a dimension), for each cache element type; and the store of one position. A loaded key or value serves all
// queries of a tile. Included by one file per instruction set.
// THREAD: any.
#pragma once

#include "kernels/cpu/isa/lanes_prefix.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/formats/half.h"

namespace ringside::cpu::RINGSIDE_LANES {
namespace {

struct CacheF32 {
  using Element = float;
  static LANES_INLINE F32x16 Read(const float* p) { return Load(p); }
  static LANES_INLINE F32x16 ReadPartial(const float* p, int64_t n) { return LoadPartial(p, n); }
  static LANES_INLINE void Write(float* p, F32x16 a, int64_t n) { StorePartial(p, a, n); }
};
struct CacheF16 {
  using Element = uint16_t;
  static LANES_INLINE F32x16 Read(const uint16_t* p) { return LoadF16(p); }
  static LANES_INLINE F32x16 ReadPartial(const uint16_t* p, int64_t n) { return LoadF16Partial(p, n); }
  static LANES_INLINE void Write(uint16_t* p, F32x16 a, int64_t n) { StoreF16Partial(p, a, n); }
};
struct CacheBf16 {
  using Element = uint16_t;
  static LANES_INLINE F32x16 Read(const uint16_t* p) { return LoadBf16(p); }
  static LANES_INLINE F32x16 ReadPartial(const uint16_t* p, int64_t n) { return LoadBf16Partial(p, n); }
  static LANES_INLINE void Write(uint16_t* p, F32x16 a, int64_t n) { StoreBf16Partial(p, a, n); }
};
struct CacheE4M3 {
  using Element = uint8_t;
  static LANES_INLINE F32x16 Read(const uint8_t* p) {
    uint16_t small[16];
    for (int i = 0; i < 16; ++i) small[i] = E4M3ToSmallHalf(p[i]);
    return Mul(LoadF16(small), Set(256.0f));
  }
  static LANES_INLINE F32x16 ReadPartial(const uint8_t* p, int64_t n) {
    uint8_t copy[16] = {};
    for (int64_t i = 0; i < n; ++i) copy[i] = p[i];
    return Read(copy);
  }
  static LANES_INLINE void Write(uint8_t* p, F32x16 a, int64_t n) {
    float lanes[16];
    Store(lanes, a);
    for (int64_t i = 0; i < n; ++i) p[i] = FloatToE4M3(lanes[i]);
  }
};

/// Calls f with the cache type of `dtype`.
template <class F>
LANES_INLINE void WithCacheType(DType dtype, F f) {
  switch (dtype) {
    case DType::kF32:
      return f(CacheF32{});
    case DType::kBF16:
      return f(CacheBf16{});
    case DType::kF8E4M3:
      return f(CacheE4M3{});
    default:
      return f(CacheF16{});
  }
}

// ---- scores ---------------------------------------------------------------------------------------------------------

/// Scores of M queries by N tiles from tile `tile` on. q: [head_dim][pitch]. (Hardware prefetch handles four concurrent
/// tiles well; software prefetch was measured slower.)
template <class C, int M, int N>
void ScoreTiles(const uint8_t* const* tiles, int64_t tile, int64_t head_dim, const float* q, int64_t pitch,
                float* scores) {
  using E = typename C::Element;
  const E* keys[N];
  F32x16 acc[M][N];
  LANES_UNROLL for (int j = 0; j < N; ++j) {
    keys[j] = reinterpret_cast<const E*>(tiles[tile + j]);
    LANES_UNROLL for (int i = 0; i < M; ++i) acc[i][j] = Zero();
  }
  for (int64_t d = 0; d < head_dim; ++d, q += pitch) {
    F32x16 k[N];
    LANES_UNROLL for (int j = 0; j < N; ++j) k[j] = C::Read(keys[j] + 16 * d);
    LANES_UNROLL for (int i = 0; i < M; ++i) {
      const F32x16 a = Set(q[i]);
      LANES_UNROLL for (int j = 0; j < N; ++j) acc[i][j] = Fma(k[j], a, acc[i][j]);
    }
  }
  LANES_UNROLL for (int i = 0; i < M; ++i) {
    LANES_UNROLL for (int j = 0; j < N; ++j) Store(scores + i * kKeyBlock + 16 * (tile + j), acc[i][j]);
  }
}

template <class C, int M, int N>
void ScoreRange(const uint8_t* const* tiles, int64_t first, int64_t last, int64_t head_dim, const float* q,
                int64_t pitch, float* scores) {
  int64_t t = first;
  for (; t + N <= last; t += N) ScoreTiles<C, M, N>(tiles, t, head_dim, q, pitch, scores);
  if constexpr (N > 1) {
    for (; t < last; ++t) ScoreTiles<C, M, 1>(tiles, t, head_dim, q, pitch, scores);
  }
}

template <class C>
void ScoreQueries(const uint8_t* const* tiles, int64_t first, int64_t last, int64_t head_dim, int64_t queries,
                  const float* q, float* scores) {
  int64_t i = 0;
  const auto next = [&](int64_t m) LANES_LAMBDA { q += m, scores += m * kKeyBlock, i += m; };
  if constexpr (kWideRegisters) {
    for (; i + 12 <= queries; next(12)) ScoreRange<C, 12, 2>(tiles, first, last, head_dim, q, queries, scores);
    for (; i + 6 <= queries; next(6)) ScoreRange<C, 6, 4>(tiles, first, last, head_dim, q, queries, scores);
  } else {
    // All queries before the next tile: the tiles of a block often share their sets of the first-level cache.
    const int64_t sixes = queries / 6 * 6;
    for (int64_t t = first; t < last; ++t) {
      for (int64_t j = 0; j < sixes; j += 6) {
        ScoreTiles<C, 6, 1>(tiles, t, head_dim, q + j, queries, scores + j * kKeyBlock);
      }
    }
    next(sixes);
  }
  for (; i + 4 <= queries; next(4))
    ScoreRange<C, 4, kWideRegisters ? 4 : 1>(tiles, first, last, head_dim, q, queries, scores);
  for (; i + 3 <= queries; next(3))
    ScoreRange<C, 3, kWideRegisters ? 4 : 2>(tiles, first, last, head_dim, q, queries, scores);
  for (; i + 2 <= queries; next(2))
    ScoreRange<C, 2, kWideRegisters ? 4 : 2>(tiles, first, last, head_dim, q, queries, scores);
  for (; i < queries; next(1)) ScoreRange<C, 1, 4>(tiles, first, last, head_dim, q, queries, scores);
}

/// Transposes a 16 x 16 matrix in place: rows i and i + 8 are interleaved, four times.
LANES_INLINE void Transpose16(float* x) {
  alignas(64) float y[256];
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 8; ++i) Interleave(Load(x + 16 * i), Load(x + 16 * (i + 8)), y + 32 * i);
    for (int i = 0; i < 8; ++i) Interleave(Load(y + 16 * i), Load(y + 16 * (i + 8)), x + 32 * i);
  }
}

/// keys[d][lane] of a tile whose keys are stored token by token; d up to a multiple of 16.
template <class C>
void TransposeKeys(const uint8_t* tile, int64_t head_dim, float* keys) {
  using E = typename C::Element;
  const E* rows = reinterpret_cast<const E*>(tile);
  for (int64_t d = 0; d < head_dim; d += 16) {
    const int64_t n = head_dim - d < 16 ? head_dim - d : 16;
    for (int64_t r = 0; r < 16; ++r) {
      const E* row = rows + r * head_dim + d;
      Store(keys + 16 * (d + r), n == 16 ? C::Read(row) : C::ReadPartial(row, n));
    }
    Transpose16(keys + 16 * d);
  }
}

/// scores[query][key of the block] for tiles [first, last) of a block. q: [head_dim][queries]. `keys` is scratch memory
/// of a tile's keys.
void Scores(const AttentionCall& call, const uint8_t* const* tiles, int64_t first, int64_t last, int64_t queries,
            const float* q, float* keys, float* scores) {
  WithCacheType(call.kv_dtype, [&](auto cache) {
    using C = decltype(cache);
    if (!call.latent) return ScoreQueries<C>(tiles, first, last, call.head_dim, queries, q, scores);
    const uint8_t* transposed[kKeyBlock / 16];
    for (int64_t t = first; t < last; ++t) {
      TransposeKeys<C>(tiles[t], call.head_dim, keys);
      transposed[t] = reinterpret_cast<const uint8_t*>(keys);
      ScoreQueries<CacheF32>(transposed, t, t + 1, call.head_dim, queries, q, scores);
    }
  });
}

// ---- values ---------------------------------------------------------------------------------------------------------

/// Bytes of a head's tile before its values.
LANES_INLINE int64_t ValuesOffset(const AttentionCall& call) { return call.latent ? 0 : call.head_tile_bytes / 2; }

constexpr int64_t kValueKeys = 64;  // whose values fit the first-level cache

/// Vectors of 16 dimensions that M queries accumulate at a time.
constexpr int ValueVectors(int m) { return !kWideRegisters ? 1 : m > 6 ? 2 : 4; }

/// o[i][0, 16 N) += sum over keys [first, last) of probabilities[i][key] * value; the last vector has `tail`
/// dimensions.
template <class C, int M, int N, bool kPartial>
void SumTiles(const uint8_t* const* tiles, int64_t values_offset, int64_t stride, int64_t first, int64_t last,
              int64_t tail, const float* probabilities, float* o) {
  using E = typename C::Element;
  F32x16 acc[M][N];
  LANES_UNROLL for (int i = 0; i < M; ++i) {
    LANES_UNROLL for (int j = 0; j < N; ++j) acc[i][j] = Load(o + i * kMaxHeadDim + 16 * j);
  }
  for (int64_t key = first; key < last;) {
    const int64_t end = (key / 16 + 1) * 16 < last ? (key / 16 + 1) * 16 : last;
    const E* value = reinterpret_cast<const E*>(tiles[key / 16] + values_offset) + key % 16 * stride;
    for (; key < end; ++key, value += stride) {
      F32x16 v[N];
      LANES_UNROLL for (int j = 0; j < N; ++j) {
        v[j] = kPartial && j == N - 1 ? C::ReadPartial(value + 16 * j, tail) : C::Read(value + 16 * j);
      }
      LANES_UNROLL for (int i = 0; i < M; ++i) {
        const F32x16 w = Set(probabilities[i * kKeyBlock + key]);
        LANES_UNROLL for (int j = 0; j < N; ++j) acc[i][j] = Fma(v[j], w, acc[i][j]);
      }
    }
  }
  LANES_UNROLL for (int i = 0; i < M; ++i) {
    LANES_UNROLL for (int j = 0; j < N; ++j) Store(o + i * kMaxHeadDim + 16 * j, acc[i][j]);
  }
}

template <class C, int M>
void SumQueries(const AttentionCall& call, const uint8_t* const* tiles, int64_t first, int64_t last,
                const float* probabilities, float* o) {
  constexpr int N = ValueVectors(M);
  const int64_t dims = call.value_dim, stride = call.head_dim, offset = ValuesOffset(call);
  constexpr int64_t kBytes = sizeof(typename C::Element);
  int64_t d = 0;
  for (; d + 16 * N <= dims; d += 16 * N) {
    SumTiles<C, M, N, false>(tiles, offset + d * kBytes, stride, first, last, 16, probabilities, o + d);
  }
  for (; d + 16 <= dims; d += 16) {
    SumTiles<C, M, 1, false>(tiles, offset + d * kBytes, stride, first, last, 16, probabilities, o + d);
  }
  if (d < dims)
    SumTiles<C, M, 1, true>(tiles, offset + d * kBytes, stride, first, last, dims - d, probabilities, o + d);
}

template <class C>
void SumAnyQueries(const AttentionCall& call, const uint8_t* const* tiles, int64_t first, int64_t last, int64_t queries,
                   const float* probabilities, float* o) {
  const auto next = [&](int64_t m) LANES_LAMBDA { queries -= m, probabilities += m * kKeyBlock, o += m * kMaxHeadDim; };
  if constexpr (kWideRegisters) {
    for (; queries >= 12; next(12)) SumQueries<C, 12>(call, tiles, first, last, probabilities, o);
  }
  for (; queries >= 6; next(6)) SumQueries<C, 6>(call, tiles, first, last, probabilities, o);
  for (; queries >= 3; next(3)) SumQueries<C, 3>(call, tiles, first, last, probabilities, o);
  for (; queries >= 1; next(1)) SumQueries<C, 1>(call, tiles, first, last, probabilities, o);
}

/// o[query][d] += probabilities[query][key] * value[key][d] for keys [first, last) of the block, ascending.
void AddValues(const AttentionCall& call, const uint8_t* const* tiles, int64_t first, int64_t last, int64_t queries,
               const float* probabilities, float* o) {
  if (first >= last) return;
  WithCacheType(call.kv_dtype, [&](auto cache) {
    // Registers for all queries: one pass. Else a few keys for all queries and dimensions before the next ones.
    const int64_t step = kWideRegisters ? kKeyBlock : kValueKeys;
    for (int64_t key = first; key < last;) {
      const int64_t next = (key / step + 1) * step, end = next < last ? next : last;
      SumAnyQueries<decltype(cache)>(call, tiles, key, end, queries, probabilities, o);
      key = end;
    }
  });
}

// ---- writing --------------------------------------------------------------------------------------------------------

/// Stores the key of one position: dimension d goes to keys[d][lane].
void StoreKey(DType dtype, const float* key, int64_t head_dim, int64_t lane, uint8_t* keys) {
  WithCacheType(dtype, [&](auto cache) {
    using C = decltype(cache);
    using E = typename C::Element;
    E* out = reinterpret_cast<E*>(keys) + lane;
    for (int64_t d = 0; d < head_dim; d += 16) {
      const int64_t n = head_dim - d < 16 ? head_dim - d : 16;
      E narrow[16];
      C::Write(narrow, LoadPartial(key + d, n), 16);
      for (int64_t i = 0; i < n; ++i) out[(d + i) * 16] = narrow[i];
    }
  });
}

/// Stores the value (or a key that is stored token by token) of one position: head_dim consecutive elements.
void StoreValue(DType dtype, const float* value, int64_t head_dim, uint8_t* out) {
  WithCacheType(dtype, [&](auto cache) {
    using C = decltype(cache);
    for (int64_t d = 0; d < head_dim; d += 16) {
      const int64_t n = head_dim - d < 16 ? head_dim - d : 16;
      C::Write(reinterpret_cast<typename C::Element*>(out) + d, LoadPartial(value + d, n), n);
    }
  });
}

}  // namespace
}  // namespace ringside::cpu::RINGSIDE_LANES
