// Runs a Model over id sequences in tests: a private cache, chunks, all logits. THREAD: tests only.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "cache/kv_cache.h"
#include "cache/kv_pool.h"
#include "engine/model/model.h"
#include "kernels/backend.h"
#include "tests/golden_folder.h"

namespace ringside {

inline std::unique_ptr<Backend> MakeTestBackend(int threads = 1) {
  CpuBackendOptions options;
  options.threads = threads;
  auto backend = MakeCpuBackend(options);
  CHECK(backend.ok());
  return std::move(*backend);
}

/// A conversation: slab and ring for `model`, for chunks of up to `chunk` tokens.
class OwnCache {
 public:
  OwnCache(const Model& model, const RingWindow& window, int64_t chunk, DType dtype = DType::kF32)
      : shape_(ShapeFor(model.shape(), window, chunk, dtype)),
        slab_(MemoryFor(model.memory(), shape_)),
        cache_(shape_, slab_.data()) {
    cache_.Reset(window);
  }
  KvCache* operator->() { return &cache_; }
  KvCache* get() { return &cache_; }

 private:
  static KvShape ShapeFor(const NetworkShape& network, const RingWindow& window, int64_t chunk, DType dtype) {
    KvShape shape =
        MakeKvShape(network.layers, network.kv_heads, network.head_dim, dtype, window.pinned, window.memory_len, chunk);
    shape.latent_dim = network.latent_dim;
    shape.varied = network.varied;
    shape.state = network.state;
    shape.state.slots = 3;
    return shape;
  }
  static Buffer MemoryFor(SlabMemory& memory, const KvShape& shape) {
    const auto bytes = static_cast<size_t>(KvPool::SlabBytes(memory, shape));
    Buffer slab = std::move(memory.Reserve(bytes).value());
    CHECK(memory.Commit(slab.data(), bytes).ok());
    return slab;
  }

  KvShape shape_;
  Buffer slab_;
  KvCache cache_;
};

/// Appends the ids in chunks; returns the logits after each id, [ids, vocab].
inline std::vector<float> RunAll(Model& model, KvCache* cache, std::span<const TokenId> ids, int64_t chunk) {
  const auto vocab = static_cast<size_t>(model.spec().vocab);
  std::vector<float> out(ids.size() * vocab);
  for (size_t at = 0; at < ids.size(); at += static_cast<size_t>(chunk)) {
    const size_t count = std::min(static_cast<size_t>(chunk), ids.size() - at);
    const StepPart part{cache, ids.subspan(at, count), StepPart::Logits::kAll};
    model.Forward({&part, 1}, std::span(out).subspan(at * vocab, count * vocab));
  }
  return out;
}

/// Largest difference, relative to the largest magnitude of `want`; NaN counts as infinitely far.
template <class A, class B>
double RelativeError(const A& got, const B& want) {
  CHECK_EQ(got.size(), want.size());
  double worst = 0, largest = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double difference = std::abs(static_cast<double>(got[i]) - static_cast<double>(want[i]));
    if (!(difference <= worst)) worst = std::isnan(difference) ? INFINITY : difference;
    largest = std::max(largest, std::abs(static_cast<double>(want[i])));
  }
  return worst / largest;
}

/// ||got - want|| / ||want||.
inline double NormError(const std::vector<float>& got, const std::vector<float>& want) {
  CHECK_EQ(got.size(), want.size());
  double error = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) error += std::pow(got[i] - want[i], 2), size += std::pow(want[i], 2);
  return std::sqrt(error / size);
}

inline std::vector<float> ReadFloats(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), out.size() * sizeof(float));
  return out;
}

/// The id sequence of the golden logits: as in make_golden.py.
inline std::vector<TokenId> GoldenIds(size_t count = 40) {
  std::vector<TokenId> ids;
  for (int i = 0; i < static_cast<int>(count); ++i) ids.push_back((i * i * 7 + i * 13 + 5) % 96);
  return ids;
}

/// The logits of an answer to an encoded input: the first 20 golden ids are the input, the others the answer.
inline std::vector<float> LogitsOfAnswer(Model& model) {
  const std::vector<TokenId> ids = GoldenIds(), input(ids.begin(), ids.begin() + 20),
                             answer(ids.begin() + 20, ids.end());
  OwnCache cache(model, {std::ssize(input), 64, Eviction::kToken}, 16);
  const StepPart part{cache.get(), input, StepPart::Logits::kNone};
  model.Forward({&part, 1}, {});
  return RunAll(model, cache.get(), answer, 16);
}

/// Pseudo-random ids, equal on every machine.
inline std::vector<TokenId> ScatteredIds(size_t count, int64_t vocab, uint32_t seed = 1) {
  std::vector<TokenId> ids;
  uint32_t state = seed * 2654435761u + 1;
  for (size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    ids.push_back(static_cast<TokenId>((state >> 8) % static_cast<uint32_t>(vocab)));
  }
  return ids;
}

/// Runs the ids one by one, each after a draft that is rolled back, at every position whose chunk has room for it.
/// Appends the logits to `got`.
inline void RunWithRejectedDrafts(Model& model, KvCache* cache, std::span<const TokenId> ids, std::vector<float>* got) {
  const std::vector<TokenId> draft = ScatteredIds(3, model.spec().vocab, 5);
  for (size_t t = 0; t < ids.size(); ++t) {
    const auto position = static_cast<int64_t>(t);
    if (position > 0 && position % StateShape::kChunk + std::ssize(draft) < StateShape::kChunk) {
      RunAll(model, cache, draft, std::ssize(draft));
      ASSERT_TRUE(cache->CanRollBack(position)) << position;
      cache->RollBack(position);
    }
    const std::vector<float> logits = RunAll(model, cache, ids.subspan(t, 1), 1);
    got->insert(got->end(), logits.begin(), logits.end());
  }
}

}  // namespace ringside
