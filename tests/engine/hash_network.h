// A network without arithmetic, for tests of the engine's cache handling. Two layers: a layer-0 row is a hash of its
// token, position and the slab's owner; a layer-1 row hashes every layer-0 row that its position attends to; the next
// token hashes every layer-1 row. Any row that is lost, stale, swapped, foreign, or computed with the wrong window
// therefore changes the output. `Expected` computes the same from the token list alone, without a cache.
//
// A recurrent network also has two layers whose state is a rolling hash of all tokens, kept as in
// kernels/state_shape.h: the hash at boundaries, and a tail of hashes of the tokens since then. The next token hashes
// these states, too. The tail is overwritten with garbage at every boundary, so that a row that no longer belongs to
// the conversation changes the output.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <mutex>
#include <random>
#include <vector>

#include "cache/kv_cache.h"
#include "engine/engine.h"
#include "engine/model/network.h"
#include "kernels/backend.h"
#include "kernels/deferred_token.h"

namespace ringside {

class HashNetwork final : public Network {
 public:
  static constexpr int64_t kVocab = 97;
  static constexpr StateShape kState{.layers = 2, .boundary_bytes = 16, .tail_row_bytes = 8};

  /// `runs_ahead`: the engine may launch a step before it knows the last one's tokens.
  explicit HashNetwork(Backend& backend, bool runs_ahead = false, bool branches = true, bool recurrent = false)
      : backend_(backend), runs_ahead_(runs_ahead), branches_(branches), recurrent_(recurrent) {}

  SlabMemory& memory() const override { return backend_; }
  NetworkShape shape() const override {
    return {.layers = 2,
            .kv_heads = 1,
            .head_dim = 2,
            .vocab = kVocab,
            .state = recurrent_ ? kState : StateShape{},
            .branches = branches_,
            .hidden = hidden_ ? 2 : 0};
  }
  bool runs_ahead() const override { return runs_ahead_; }
  void BeginDeferred(std::span<const StepPart> parts) override {
    size_t rows = 0;
    for (const StepPart& part : parts) rows += RowsOf(part);
    logits_.resize(rows * kVocab);
    Run(parts, logits_);
    if (begun_.empty()) return;
    ++steps_ahead_;
    most_rows_ahead_ = std::max(most_rows_ahead_.load(), std::ssize(parts));
  }
  void Choose(std::span<const RowSamplingParams> choices) override {
    const auto rows = static_cast<int64_t>(choices.size());
    ASSERT_EQ(logits_.size(), choices.size() * kVocab);
    std::vector<SampledToken> chosen(choices.size());
    backend_.SampleTokens({DType::kF32, logits_.data(), rows, kVocab, kVocab}, choices, chosen);
    begun_.push_back(chosen);
  }
  void Finish(std::span<SampledToken> chosen) override {
    ASSERT_EQ(chosen.size(), begun_.front().size());
    std::copy(begun_.front().begin(), begun_.front().end(), chosen.begin());
    begun_.pop_front();
  }
  bool samples_rows() const override { return true; }
  void SampleRows(std::span<const size_t> rows, std::span<const RowSamplingParams> choices,
                  std::span<SampledToken> sampled) override {
    most_rows_sampled_ = std::max(most_rows_sampled_.load(), std::ssize(rows));
    for (size_t i = 0; i < rows.size(); ++i) {
      float* logits = logits_.data() + rows[i] * kVocab;
      backend_.SampleTokens({DType::kF32, logits, 1, kVocab, kVocab}, choices.subspan(i, 1), sampled.subspan(i, 1));
    }
  }
  std::span<const float> hidden_states() const override { return states_; }

  int64_t rows_computed() const { return rows_computed_; }
  /// Steps launched before the previous one was finished.
  int64_t steps_ahead() const { return steps_ahead_; }
  /// Rows of the largest such step.
  int64_t most_rows_ahead() const { return most_rows_ahead_; }
  /// Rows of the largest SampleRows.
  int64_t most_rows_sampled() const { return most_rows_sampled_; }
  /// Enables or disables the hidden states. REQUIRES: no engine runs on it yet.
  void TellHiddenStates(bool tell) { hidden_ = tell; }
  /// Samples only the first `answers` tokens, so that text repeats. REQUIRES: no engine runs on it yet; Expected is for
  /// all tokens.
  void SampleAmong(int64_t answers) { answers_ = static_cast<uint64_t>(answers); }
  /// Makes every logit and hidden state NaN, or restores them.
  void PoisonLogits(bool poison) { poison_ = poison; }
  /// Called in every later step, on the engine's thread.
  void OnStep(std::function<void()> call) {
    std::lock_guard lock(mutex_);
    on_step_ = std::move(call);
  }

  /// The token that follows `tokens`, by the definition.
  static TokenId Expected(const std::vector<TokenId>& tokens, const std::vector<int64_t>& starts, RingWindow window,
                          bool recurrent = false) {
    const uint64_t hash = ExpectedHash(tokens, starts, window);
    return static_cast<TokenId>((recurrent ? Mix(hash, ExpectedState(tokens)) : hash) % kVocab);
  }
  /// The mean of the hidden states of `tokens`: each is a part of the hash that determines the next token, and its
  /// position.
  static std::vector<float> ExpectedMean(const std::vector<TokenId>& tokens, RingWindow window) {
    double hashes = 0, positions = 0;
    for (size_t t = 0; t < tokens.size(); ++t) {
      const auto [hash, position] =
          StateOf(ExpectedHash({tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(t + 1)}, {}, window),
                  static_cast<int64_t>(t));
      hashes += static_cast<double>(hash);
      positions += static_cast<double>(position);
    }
    const auto n = static_cast<double>(tokens.size());
    return {static_cast<float>(hashes / n), static_cast<float>(positions / n)};
  }

 private:
  static std::array<float, 2> StateOf(uint64_t hash, int64_t position) {
    return {static_cast<float>(hash % 65536), static_cast<float>(position)};
  }
  static uint64_t ExpectedHash(const std::vector<TokenId>& tokens, const std::vector<int64_t>& starts,
                               RingWindow window) {
    Ring ring(window, 1 << 30);
    for (const int64_t start : starts) ring.AddMessageStart(start);
    const auto layer0 = [&](int64_t p) { return Layer0(tokens[static_cast<size_t>(p)], p); };
    const auto t = static_cast<int64_t>(tokens.size()) - 1;
    uint64_t hash = 1;
    ForEachVisible(ring, t, [&](int64_t p) {
      uint64_t row = 1;
      ForEachVisible(ring, p, [&](int64_t q) { row = Mix(row, layer0(q)); });
      hash = Mix(hash, row);
    });
    return hash;
  }
  static uint64_t ExpectedState(const std::vector<TokenId>& tokens) {
    uint64_t both = 1;
    for (int64_t layer = 0; layer < kState.layers; ++layer) {
      uint64_t state = 0;
      for (size_t t = 0; t < tokens.size(); ++t) {
        state = Mix(state, TailRow(layer, tokens[t], static_cast<int64_t>(t)));
      }
      both = Mix(both, state);
    }
    return both;
  }
  static uint64_t TailRow(int64_t layer, TokenId token, int64_t position) {
    return Mix(Layer0(token, position), static_cast<uint64_t>(layer) + 17);
  }
  /// Number of logit rows.
  static size_t RowsOf(const StepPart& part) {
    if (part.logits == StepPart::Logits::kAll) return part.tokens.size();
    return part.logits == StepPart::Logits::kLast ? 1 : 0;
  }
  static uint64_t Mix(uint64_t a, uint64_t b) {
    uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2))) * 0xbf58476d1ce4e5b9u;
    return x ^ (x >> 31);
  }
  static uint64_t Layer0(TokenId token, int64_t position) {
    return Mix(static_cast<uint64_t>(token) + 11, static_cast<uint64_t>(position) + 13);
  }
  template <class F>
  static void ForEachVisible(const Ring& ring, int64_t t, F&& f) {
    for (int64_t p = 0; p < std::min(ring.window().pinned, t + 1); ++p) f(p);
    for (int64_t p = ring.FirstLive(t); p <= t; ++p) f(p);
  }

  // Half of a row is the first dimension of its key, half the second dimension of its value: they are at opposite ends
  // of a tile, [dimension][lane] and [lane][dimension].
  static std::pair<std::byte*, std::byte*> Row(const KvCache& cache, int64_t layer, int64_t p) {
    const KvShape& shape = cache.shape();
    const bool branched = cache.history() != nullptr, own = !branched || p >= cache.branch();
    const int64_t slot =
        branched && own ? shape.Slot(p - cache.branch(), 0) : shape.Slot(p, cache.ring().window().pinned);
    const int64_t lane = slot % KvShape::kTile;
    auto* slab = static_cast<std::byte*>(own ? cache.slab() : const_cast<void*>(cache.history()));
    std::byte* tile = slab + shape.TileOffset(layer, slot / KvShape::kTile, 0);
    return {tile + lane * 4, tile + shape.half_tile_bytes() + (lane * 2 + 1) * 4};
  }
  static uint64_t Read(const KvCache& cache, int64_t layer, int64_t p) {
    const auto [key, value] = Row(cache, layer, p);
    uint32_t low, high;
    std::memcpy(&low, key, 4);
    std::memcpy(&high, value, 4);
    return uint64_t{high} << 32 | low;
  }
  static void Write(const KvCache& cache, int64_t layer, int64_t p, uint64_t row) {
    const auto [key, value] = Row(cache, layer, p);
    const auto low = static_cast<uint32_t>(row), high = static_cast<uint32_t>(row >> 32);
    std::memcpy(key, &low, 4);
    std::memcpy(value, &high, 4);
  }

  /// Computes the recurrent layers of the tokens from `place` on. Returns the hash of their states after each token.
  static std::vector<uint64_t> RunState(const KvCache& cache, const KvCache::Place& place,
                                        std::span<const TokenId> tokens, std::span<const StateWrite> writes) {
    const StateShape& shape = cache.shape().state;
    auto* slab = static_cast<std::byte*>(cache.slab());
    std::vector<uint64_t> after(tokens.size(), 1);
    const int64_t begin = StateShape::BoundaryBefore(place.position);
    for (int64_t layer = 0; layer < shape.layers; ++layer) {
      std::array<uint64_t, 2> boundary{};  // hash, position
      if (place.state_slot >= 0) std::memcpy(&boundary, slab + shape.BoundaryOffset(place.state_slot, layer), 16);
      EXPECT_EQ(boundary[1], static_cast<uint64_t>(begin)) << "the boundary of another position";
      uint64_t state = boundary[0], row = 0;
      for (int64_t p = begin; p < place.position; ++p) {
        std::memcpy(&row, slab + shape.TailOffset(layer, p), 8);
        state = Mix(state, row);
      }
      auto write = writes.begin();
      for (size_t i = 0; i < tokens.size(); ++i) {
        const int64_t p = place.position + static_cast<int64_t>(i);
        row = TailRow(layer, tokens[i], p);
        std::memcpy(slab + shape.TailOffset(layer, p), &row, 8);
        state = Mix(state, row);
        after[i] = Mix(after[i], state);
        if ((p + 1) % StateShape::kChunk != 0) continue;
        std::memset(slab + shape.TailOffset(layer, 0), 0xee, static_cast<size_t>(shape.tail_bytes() / shape.layers));
        if (write == writes.end() || write->position != p + 1) continue;
        EXPECT_NE(write->slot, place.state_slot) << "the boundary that the step reads is overwritten";
        boundary = {state, static_cast<uint64_t>(p + 1)};
        std::memcpy(slab + shape.BoundaryOffset(write->slot, layer), &boundary, 16);
        ++write;
      }
      EXPECT_EQ(write, writes.end()) << "a boundary outside the step";
    }
    return after;
  }

  void Run(std::span<const StepPart> parts, std::span<float> logits) {
    {
      std::lock_guard lock(mutex_);
      if (on_step_) on_step_();
    }
    size_t row_of_logits = 0;
    int64_t rows = 0;
    states_.clear();
    for (const StepPart& part : parts) {
      KvCache& cache = *part.cache;
      const auto n = static_cast<int64_t>(part.tokens.size());
      std::vector<StateWrite> state_writes;
      const KvCache::Place place = cache.Append(n, &state_writes);
      const int64_t first = place.position;
      std::vector<TokenId> tokens(part.tokens.begin(), part.tokens.end());
      for (TokenId& token : tokens) {
        if (IsDeferredToken(token)) token = begun_.back()[DeferredTokenIndex(token)].id;
      }
      for (int64_t i = 0; i < n; ++i) Write(cache, 0, first + i, Layer0(tokens[static_cast<size_t>(i)], first + i));
      std::vector<uint64_t> states;
      if (recurrent_) states = RunState(cache, place, tokens, state_writes);
      for (int64_t t = first; t < first + n; ++t) {
        uint64_t row = 1;
        ForEachVisible(cache.ring(), t, [&](int64_t p) { row = Mix(row, Read(cache, 0, p)); });
        Write(cache, 1, t, row);
      }
      rows += n;
      const auto hash_at = [&](int64_t t) {
        uint64_t hash = 1;
        ForEachVisible(cache.ring(), t, [&](int64_t p) { hash = Mix(hash, Read(cache, 1, p)); });
        return recurrent_ ? Mix(hash, states[static_cast<size_t>(t - first)]) : hash;
      };
      for (int64_t t = first; part.hidden_states && t < first + n; ++t) {
        auto state = StateOf(hash_at(t), t);
        if (poison_) state[0] = std::numeric_limits<float>::quiet_NaN();
        states_.insert(states_.end(), state.begin(), state.end());
      }
      for (int64_t t = first + n - static_cast<int64_t>(RowsOf(part)); t < first + n; ++t) {
        const uint64_t hash = hash_at(t);
        const auto out = logits.subspan(row_of_logits++ * kVocab, kVocab);
        std::fill(out.begin(), out.end(), poison_ ? std::numeric_limits<float>::quiet_NaN() : 0.0f);
        if (!poison_) out[hash % answers_] = 10.0f;
      }
    }
    rows_computed_ += rows;
  }

  Backend& backend_;
  const bool runs_ahead_, branches_, recurrent_;
  bool hidden_ = true;
  uint64_t answers_ = kVocab;
  std::deque<std::vector<SampledToken>> begun_;
  std::vector<float> logits_;  // of the step whose tokens are not sampled yet
  std::vector<float> states_;  // of the last step
  std::atomic<int64_t> rows_computed_{0}, steps_ahead_{0}, most_rows_ahead_{0}, most_rows_sampled_{0};
  std::atomic<bool> poison_{false};
  std::mutex mutex_;
  std::function<void()> on_step_;
};

/// Random tokens of its vocabulary.
inline std::vector<TokenId> Tokens(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens(n);
  for (TokenId& id : tokens) id = static_cast<TokenId>(random() % HashNetwork::kVocab);
  return tokens;
}

}  // namespace ringside
