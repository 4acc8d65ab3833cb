#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/formats/half.h"
#include "tests/kernels/reference.h"

namespace ringside::testing {
namespace {

double InverseFrequency(const AttentionCase& c, int64_t j) {
  return std::pow(10000.0, -2.0 * static_cast<double>(j) / static_cast<double>(c.rotary));
}

/// x [head_dim] rotated to position p.
std::vector<double> Rotated(const AttentionCase& c, const float* x, int64_t p) {
  std::vector<double> y(x, x + c.head_dim);
  if (c.pairs == RopePairs::kNone) return y;
  for (int64_t j = 0; j < c.rotary / 2; ++j) {
    const bool adjacent = c.pairs == RopePairs::kAdjacent;
    const size_t a = static_cast<size_t>(c.first_rotary() + (adjacent ? 2 * j : j)),
                 b = static_cast<size_t>(c.first_rotary() + (adjacent ? 2 * j + 1 : j + c.rotary / 2));
    const double angle = static_cast<double>(p) * InverseFrequency(c, j), cosine = std::cos(angle),
                 sine = std::sin(angle);
    y[a] = x[a] * cosine - x[b] * sine;
    y[b] = x[a] * sine + x[b] * cosine;
  }
  return y;
}

/// Position of row t's query relative to pinned keys.
int64_t PinnedPosition(const AttentionCase& c, int64_t t) { return t < c.pinned ? t : c.pinned + t - c.FirstLive(t); }

template <class E>
void PoisonElements(const AttentionCase& c, const KvShape& shape, int64_t next, uint8_t* slab, E nan) {
  const int64_t oldest = next <= c.pinned ? c.pinned : c.FirstLive(next);
  for (int64_t tile = 0; tile < shape.pinned_tiles + shape.ring_tiles; ++tile) {
    for (int64_t lane = 0; lane < 16; ++lane) {
      bool live = false;
      const int64_t slot = 16 * tile + lane;
      for (int64_t p = 0; p < c.pinned && p < next; ++p) live = live || shape.Slot(p, c.pinned) == slot;
      for (int64_t p = oldest; p < next; ++p) live = live || shape.Slot(p, c.pinned) == slot;
      if (live) continue;
      for (int64_t g = 0; g < c.kv_heads; ++g) {
        E* keys = reinterpret_cast<E*>(slab + shape.TileOffset(0, tile, g));
        if (c.latent_dim > 0) {
          std::fill_n(keys + lane * c.head_dim, c.head_dim, nan);
          continue;
        }
        E* values = reinterpret_cast<E*>(slab + shape.TileOffset(0, tile, g) + shape.half_tile_bytes());
        for (int64_t d = 0; d < c.head_dim; ++d) keys[16 * d + lane] = values[lane * c.head_dim + d] = nan;
      }
    }
  }
}

/// The keys' positions that row t sees, with their weights.
std::vector<std::pair<int64_t, double>> AttentionWeights(const AttentionCase& c, int64_t head, int64_t t,
                                                         const float* q, const std::vector<std::vector<double>>& keys) {
  std::vector<double> own = Rotated(c, q, t), pinned = Rotated(c, q, PinnedPosition(c, t));
  for (size_t d = 0; d < c.query_weights.size(); ++d) own[d] *= c.query_weights[d], pinned[d] *= c.query_weights[d];
  const double scale = c.scale() * (c.query_scales.empty() ? 1 : c.query_scales[static_cast<size_t>(t)]);
  std::vector<std::pair<int64_t, double>> weights;
  double largest = c.sinks.empty() ? -1e300 : c.sinks[static_cast<size_t>(head)];
  for (int64_t p = 0; p <= c.LastSeen(t); ++p) {
    if (p >= c.pinned && p < c.FirstLive(t)) continue;
    const int64_t distance = (p < c.pinned ? PinnedPosition(c, t) : t) - p;
    const int64_t query = p + distance;  // its position, or in the cache
    if (c.window > 0 && (c.chunked ? p / c.window != query / c.window : distance >= c.window)) continue;
    const double *row = (p < c.pinned ? pinned : own).data(), *key = keys[static_cast<size_t>(p)].data();
    double score = scale * std::inner_product(row, row + c.head_dim, key, 0.0);
    if (c.soft_cap > 0) score = c.soft_cap * std::tanh(score / c.soft_cap);
    if (!c.slopes.empty()) score -= c.slopes[static_cast<size_t>(head)] * static_cast<double>(distance);
    weights.emplace_back(p, score);
    largest = std::max(largest, score);
  }
  double sum = c.sinks.empty() ? 0 : std::exp(c.sinks[static_cast<size_t>(head)] - largest);
  for (auto& [p, weight] : weights) sum += weight = std::exp(weight - largest);
  for (auto& [p, weight] : weights) weight /= sum;
  return weights;
}

}  // namespace

void PoisonSlab(const AttentionCase& c, const KvShape& shape, int64_t next, uint8_t* slab) {
  if (shape.dtype == DType::kF32) {
    PoisonElements<float>(c, shape, next, slab, std::numeric_limits<float>::quiet_NaN());
  } else if (shape.dtype == DType::kF8E4M3) {
    PoisonElements<uint8_t>(c, shape, next, slab, 0x7f);
  } else {
    PoisonElements<uint16_t>(c, shape, next, slab, 0x7fc1);  // NaN in both 16-bit types
  }
}

int64_t AttentionCase::FirstLive(int64_t t) const {
  int64_t first = std::max(pinned, t - memory + 1);
  if (slack > 0 && first > pinned) first = std::min(t, (first + slack - 1) / slack * slack);
  return first;
}

int64_t AttentionCase::LastSeen(int64_t t) const {
  for (const auto& [begin, end] : mutual) {
    if (t >= begin && t < end) return end - 1;
  }
  return t;
}

int64_t AttentionCase::NextChunk(int64_t t, int64_t chunk) const {
  int64_t next = std::min(t + chunk, length);
  for (const auto& [begin, end] : mutual) {
    if (next > begin && next < end) next = begin > t ? begin : end;
  }
  return next;
}

int64_t AttentionCase::RingRows(int64_t chunk) const {
  for (const auto& [begin, end] : mutual) chunk = std::max(chunk, end - begin);
  return ring_rows > 0 ? ring_rows : (memory + std::min(chunk, length) - 1 + 15) / 16 * 16;
}

KvShape AttentionCase::Shape(int64_t chunk, int64_t layers) const {
  return {.layers = layers,
          .kv_heads = kv_heads,
          .head_dim = head_dim,
          .dtype = kv_dtype,
          .pinned_tiles = (pinned + 15) / 16,
          .ring_tiles = RingRows(chunk) / 16,
          .latent_dim = latent_dim};
}

std::vector<float> AttentionCase::Qkv() const {
  std::vector<float> out = RandomFloats(static_cast<size_t>(length * width()), seed, 1.5f);
  for (float& x : out) x = Bf16ToFloat(FloatToBf16(x));
  return out;
}

std::vector<double> DenseAttention(const AttentionCase& c) {
  const std::vector<float> qkv = c.Qkv();
  const auto head_of_row = [&](int64_t p, int64_t head) {
    return &qkv[static_cast<size_t>(p * c.width() + head * c.head_dim)];
  };
  std::vector<double> out(static_cast<size_t>(c.length * c.heads * c.value_dim()), 0.0);
  for (int64_t g = 0; g < c.kv_heads; ++g) {
    std::vector<std::vector<double>> keys, values;
    for (int64_t p = 0; p < c.length; ++p) {
      keys.push_back(Rotated(c, head_of_row(p, c.heads + g), p));
      const float* value = head_of_row(p, c.heads + g + (c.latent_dim > 0 ? 0 : c.kv_heads));
      values.emplace_back(value, value + c.value_dim());
      if (c.kv_dtype != DType::kF8E4M3) continue;
      for (double& x : keys.back()) x = E4M3ToFloat(FloatToE4M3(static_cast<float>(x)));
      for (double& x : values.back()) x = E4M3ToFloat(FloatToE4M3(static_cast<float>(x)));
    }
    for (int64_t h = g * (c.heads / c.kv_heads); h < (g + 1) * (c.heads / c.kv_heads); ++h) {
      for (int64_t t = 0; t < c.length; ++t) {
        const auto weights = AttentionWeights(c, h, t, head_of_row(t, h), keys);
        double* row = &out[static_cast<size_t>((t * c.heads + h) * c.value_dim())];
        for (const auto& [p, weight] : weights) {
          const double* value = values[static_cast<size_t>(p)].data();
          for (int64_t d = 0; d < c.value_dim(); ++d) row[d] += weight * value[d];
        }
      }
    }
  }
  return out;
}

AngleRows::AngleRows(const AttentionCase& c, int64_t first, int64_t rows) {
  for (int64_t t = first; t < first + rows; ++t) {
    for (int64_t j = 0; j < c.rotary / 2; ++j) {
      const double own = static_cast<double>(t) * InverseFrequency(c, j);
      const double pinned = static_cast<double>(PinnedPosition(c, t)) * InverseFrequency(c, j);
      own_cos.push_back(static_cast<float>(std::cos(own)));
      own_sin.push_back(static_cast<float>(std::sin(own)));
      pinned_cos.push_back(static_cast<float>(std::cos(pinned)));
      pinned_sin.push_back(static_cast<float>(std::sin(pinned)));
    }
  }
}

std::vector<float> RingAttention(Backend& backend, const AttentionCase& c, int64_t chunk, bool poison,
                                 int64_t ring_rows) {
  AttentionCase sized = c;
  if (ring_rows > 0) sized.ring_rows = ring_rows;
  const KvShape shape = sized.Shape(chunk);
  Buffer slab = std::move(backend.Allocate(static_cast<size_t>(shape.slab_bytes())).value());
  std::vector<float> qkv = c.Qkv(), out(static_cast<size_t>(c.length * c.heads * c.value_dim()));
  for (int64_t t = 0, rows = 0; t < c.length; t += rows) {
    rows = c.NextChunk(t, chunk) - t;
    if (poison) PoisonSlab(c, shape, t, static_cast<uint8_t*>(slab.data()));
    const AngleRows angles(c, t, rows);
    std::vector<int64_t> first_live, last_seen;
    for (int64_t r = 0; r < rows; ++r) first_live.push_back(c.FirstLive(t + r)), last_seen.push_back(c.LastSeen(t + r));
    const AttentionSegment segment{.first_row = 0,
                                   .rows = rows,
                                   .position = t,
                                   .pinned = c.pinned,
                                   .first_live = first_live.data(),
                                   .slab = slab.data(),
                                   .last_seen = c.mutual.empty() ? nullptr : last_seen.data()};
    backend.Attention({.qkv = AsTensor(qkv, c.length, c.width()).Rows(t, rows),
                       .out = AsTensor(out, c.length, c.heads * c.value_dim()).Rows(t, rows),
                       .layer = 0,
                       .shape = shape,
                       .heads = c.heads,
                       .rotary = c.rotary,
                       .first_rotary = c.first_rotary(),
                       .pairs = c.pairs,
                       .angles = angles.angles(),
                       .scores = c.scores(),
                       .query_weights = c.query_weights.empty() ? nullptr : c.query_weights.data(),
                       .query_scales = c.QueryScales(t),
                       .segments = {&segment, 1}});
  }
  return out;
}

}  // namespace ringside::testing
