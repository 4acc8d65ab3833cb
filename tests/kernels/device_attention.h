// Runs attention cases over the ring of any device.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/kernels/devices.h"

namespace ringside::testing {

class AttentionTest : public DeviceTest {
 protected:
  /// Relative error in the Euclidean norm.
  void ExpectNear(const std::vector<float>& got, const std::vector<double>& want, DType cache, const char* what) {
    ASSERT_EQ(got.size(), want.size());
    double error = 0, size = 0;
    for (size_t i = 0; i < got.size(); ++i) error += std::pow(got[i] - want[i], 2), size += want[i] * want[i];
    // The reference applies an E4M3 cache's rounding itself.
    const double cached = cache == DType::kF8E4M3 ? 0 : Rounding(cache);
    EXPECT_LT(std::sqrt(error / size), 2 * (Rounding(type_) + cached)) << what;
  }
};

/// Value i of every row of a gate.
inline float GateValue(int64_t i) { return 0.5f * static_cast<float>(i % 7 - 3); }

/// The next rows of some sequences as one step: rows [done, done + rows) of each case, into its slab. With a `history`
/// the slabs are its branches, from position `branch` on. With `gates` the results are multiplied by the sigmoids of
/// that number of values of each row.
inline std::vector<std::vector<float>> Step(Backend& backend, const std::vector<AttentionCase>& cases,
                                            const KvShape& shape, const std::vector<const void*>& slabs, int64_t done,
                                            int64_t rows, const void* history = nullptr, int64_t branch = 0,
                                            int64_t gates = 0) {
  std::vector<AttentionSegment> segments;
  std::vector<std::vector<int64_t>> first_live(cases.size()), last_seen(cases.size());
  std::vector<float> qkv, query_scales, angles[4];
  const AttentionCase& like = cases[0];
  std::vector<std::vector<float>> out(cases.size());
  int64_t row = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    const AttentionCase& c = cases[i];
    const int64_t count = std::clamp<int64_t>(c.length - done, 0, rows);
    if (count == 0) continue;
    for (int64_t r = 0; r < count; ++r) {
      first_live[i].push_back(c.FirstLive(done + r));
      last_seen[i].push_back(c.LastSeen(done + r));
    }
    segments.push_back(
        {row, count, done, c.pinned, first_live[i].data(), const_cast<void*>(slabs[i]), history, branch});
    if (!c.mutual.empty()) segments.back().last_seen = last_seen[i].data();
    const std::vector<float> input = c.Qkv();
    qkv.insert(qkv.end(), input.begin() + done * c.width(), input.begin() + (done + count) * c.width());
    const AngleRows own(c, done, count);
    const std::vector<float>* from[] = {&own.own_cos, &own.own_sin, &own.pinned_cos, &own.pinned_sin};
    for (size_t k = 0; k < 4; ++k) angles[k].insert(angles[k].end(), from[k]->begin(), from[k]->end());
    if (const float* scales = c.QueryScales(done)) query_scales.insert(query_scales.end(), scales, scales + count);
    row += count;
  }
  if (row == 0) return out;
  const DType type = backend.activation_dtype();
  const int64_t columns = like.heads * like.head_dim;
  const DeviceFloats slopes(backend, like.slopes), sinks(backend, like.sinks), weights(backend, like.query_weights);
  ScoreTraits scores = like.scores();
  if (scores.slopes != nullptr) scores.slopes = slopes.data();
  if (scores.sinks != nullptr) scores.sinks = sinks.data();
  const int64_t gate_columns = std::max<int64_t>(gates, 1);
  std::vector<float> gate_values;
  for (int64_t i = 0; i < row * gate_columns; ++i) gate_values.push_back(GateValue(i % gate_columns));
  const DeviceMatrix gate(backend, type, row, gate_columns, gate_values);
  DeviceMatrix in(backend, type, row, like.width(), qkv),
      result(backend, type, row, columns, std::vector<float>(static_cast<size_t>(row * columns), NAN));
  backend.Attention({.qkv = in.tensor(),
                     .out = result.tensor(),
                     .layer = 0,
                     .shape = shape,
                     .heads = like.heads,
                     .rotary = like.rotary,
                     .pairs = like.pairs,
                     .angles = {angles[0].data(), angles[1].data(), angles[2].data(), angles[3].data()},
                     .scores = scores,
                     .query_weights = like.query_weights.empty() ? nullptr : weights.data(),
                     .query_scales = query_scales.empty() ? nullptr : query_scales.data(),
                     .segments = segments});
  if (gates > 0) backend.Gate(gate.tensor(), GateKind::kSigmoid, result.tensor());
  const std::vector<float> all = result.Get();
  size_t next = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    if (first_live[i].empty()) continue;
    const AttentionSegment& s = segments[next++];
    out[i].assign(all.begin() + s.first_row * columns, all.begin() + (s.first_row + s.rows) * columns);
  }
  return out;
}

/// Runs the case, `chunk` rows at a time, its first `before` rows up to 64 at a time; before each, fills rows that must
/// not be read with NaN.
inline std::vector<float> OverTheRing(Backend& backend, const AttentionCase& c, int64_t chunk, int64_t before = 0) {
  constexpr int64_t kBefore = 64;
  const KvShape shape = c.Shape(before > 0 ? kBefore : chunk);
  const auto bytes = static_cast<size_t>(shape.slab_bytes());
  Buffer slab = std::move(backend.Allocate(bytes).value());
  std::vector<uint8_t> host(bytes);
  std::vector<float> out;
  for (int64_t done = 0, count = 0; done < c.length; done += count) {
    count = done < before ? std::min(kBefore, before - done) : c.NextChunk(done, chunk) - done;
    backend.CopyToHost(host.data(), slab.data(), bytes);
    backend.Synchronize();
    PoisonSlab(c, shape, done, host.data());
    backend.CopyToDevice(slab.data(), host.data(), bytes);
    backend.Synchronize();
    const auto rows = Step(backend, {c}, shape, {slab.data()}, done, count);
    out.insert(out.end(), rows[0].begin(), rows[0].end());
  }
  return out;
}

}  // namespace ringside::testing
