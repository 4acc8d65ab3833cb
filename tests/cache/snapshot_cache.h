// Caches with known rows: the content of position p's row is a function of p and of the number of rollbacks, so that
// every element of every live row can be compared. So is that of a boundary of the recurrent state, and of a row of its
// tail.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "cache/kv_pool.h"
#include "cache/snapshot.h"
#include "tests/kernels/forwarding_backend.h"

namespace ringside {

/// The CPU, with pieces of configurable size.
struct PieceBackend final : ForwardingBackend {
  PieceBackend() : ForwardingBackend(std::move(*MakeCpuBackend({.threads = 1}))) {}
  int64_t slab_chunk_bytes() const override { return piece_bytes; }

  int64_t piece_bytes = ForwardingBackend::slab_chunk_bytes();
};

class SnapshotCacheTest : public testing::Test {
 protected:
  /// Three recurrent layers; a boundary is larger than a tile.
  static constexpr StateShape kState{.layers = 3, .boundary_bytes = 5000, .tail_row_bytes = 36, .slots = 3};

  explicit SnapshotCacheTest(DType dtype = DType::kF16, StateShape state = {}) {
    proof_.fingerprint.fill(0x5c);
    for (const int64_t ring_tiles : {4, 4, 3, 9, 4}) {  // R = 64, 64, 48, 144, 64
      KvShape shape{3, 2, 8, dtype, 2, ring_tiles, state};
      auto slab = backend_->Allocate(static_cast<size_t>(shape.slab_bytes()));
      slabs_.push_back(std::move(*slab));
      caches_.push_back(std::make_unique<KvCache>(shape, slabs_.back().data()));
    }
  }

  /// Cache `i`, reset to this window. Its slab keeps the old bytes.
  KvCache& Fresh(size_t i, const RingWindow& window) {
    caches_[i]->Reset(window);
    return *caches_[i];
  }

  /// Fills the whole slab with noise, like another conversation's rows.
  void Scribble(KvCache& cache) {
    auto* bytes = static_cast<unsigned char*>(cache.slab());
    for (int64_t i = 0; i < cache.shape().slab_bytes(); ++i) bytes[i] = static_cast<unsigned char>(random_());
  }

  /// Appends n tokens and writes their rows, with occasional message starts.
  void Grow(KvCache& cache, int64_t n) {
    for (; n > 0; --n) {
      const int64_t position = cache.ring().next();
      if (position % 13 == 0) cache.ring().AddMessageStart(position);
      std::vector<StateWrite> writes;
      cache.Append(1, &writes);
      WriteRow(cache, position);
      if (cache.state().used()) WriteState(cache, position, writes);
    }
  }

  /// Rolls back; rows written afterwards differ from the previous ones.
  void RollBack(KvCache& cache, int64_t to) {
    cache.RollBack(to);
    ++era_;
  }

  /// Copies `from` to `to`, which has the same shape, without a snapshot.
  static void MakeEqual(KvCache& to, const KvCache& from) {
    ASSERT_TRUE(to.shape() == from.shape());
    to.Adopt(from, from.ring().next());
    std::memcpy(to.slab(), from.slab(), static_cast<size_t>(from.shape().slab_bytes()));
  }

  Snapshot Capture(KvCache& cache, const Snapshot* base = nullptr, int64_t replay_start = 0) {
    std::vector<int32_t> tokens(static_cast<size_t>(cache.ring().next()));
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 7);
    return Snapshot::Capture(cache, *backend_, proof_, tokens, replay_start, base);
  }

  static std::byte* Key(const KvCache& cache, int64_t layer, int64_t position, int64_t head, int64_t d) {
    const KvShape& shape = cache.shape();
    const int64_t slot = shape.Slot(position, cache.ring().window().pinned);
    return static_cast<std::byte*>(cache.slab()) + shape.TileOffset(layer, slot / KvShape::kTile, head) +
           (d * KvShape::kTile + slot % KvShape::kTile) * shape.element_bytes();
  }
  static std::byte* Value(const KvCache& cache, int64_t layer, int64_t position, int64_t head) {
    const KvShape& shape = cache.shape();
    const int64_t slot = shape.Slot(position, cache.ring().window().pinned);
    return static_cast<std::byte*>(cache.slab()) + shape.TileOffset(layer, slot / KvShape::kTile, head) +
           shape.half_tile_bytes() + slot % KvShape::kTile * shape.head_dim * shape.element_bytes();
  }

  /// Asserts that both rings have the same state, as far as the smaller one can, and that every row that either may
  /// still attend to is equal, bit for bit.
  static void ExpectSame(const KvCache& a, const KvCache& b) {
    const Ring &left = a.ring(), &right = b.ring();
    ASSERT_EQ(left.next(), right.next());
    ASSERT_TRUE(left.window() == right.window());
    ASSERT_TRUE(std::equal(left.message_starts().begin(), left.message_starts().end(), right.message_starts().begin(),
                           right.message_starts().end()));
    const int64_t pinned = left.window().pinned, resident = std::max(left.resident(), right.resident());
    ASSERT_LE(resident, std::max(pinned, left.FirstLive(left.next())));
    ExpectSameState(a, b);
    const KvShape& shape = a.shape();
    for (int64_t p = 0; p < left.next(); ++p) {
      if (p >= pinned && p < resident) continue;
      for (int64_t layer = 0; layer < shape.layers; ++layer) {
        for (int64_t head = 0; head < shape.kv_heads; ++head) {
          const auto row = static_cast<size_t>(shape.head_dim * shape.element_bytes());
          ASSERT_EQ(std::memcmp(Value(a, layer, p, head), Value(b, layer, p, head), row), 0) << "value of " << p;
          for (int64_t d = 0; d < shape.head_dim; ++d) {
            ASSERT_EQ(std::memcmp(Key(a, layer, p, head, d), Key(b, layer, p, head, d),
                                  static_cast<size_t>(shape.element_bytes())),
                      0)
                << "key of " << p;
          }
        }
      }
    }
  }

  /// Asserts that every boundary that both have, the last one, and the tail are equal.
  static void ExpectSameState(const KvCache& a, const KvCache& b) {
    const StateShape& shape = a.shape().state;
    const int64_t next = a.ring().next(), last = StateShape::BoundaryBefore(next);
    if (shape.empty()) return;
    const auto bytes = [](const KvCache& cache, int64_t offset) {
      return static_cast<const std::byte*>(cache.slab()) + offset;
    };
    for (const StateWrite& held : a.state().held()) {
      const int other = b.state().SlotOf(held.position);
      ASSERT_TRUE(other >= 0 || held.position != last);
      if (other < 0) continue;
      ASSERT_EQ(std::memcmp(bytes(a, shape.BoundaryOffset(held.slot, 0)), bytes(b, shape.BoundaryOffset(other, 0)),
                            static_cast<size_t>(shape.slot_bytes())),
                0)
          << "boundary at " << held.position;
    }
    for (int64_t layer = 0; layer < shape.layers; ++layer) {
      for (int64_t p = last; p < next; ++p) {
        ASSERT_EQ(std::memcmp(bytes(a, shape.TailOffset(layer, p)), bytes(b, shape.TailOffset(layer, p)),
                              static_cast<size_t>(shape.tail_row_bytes)),
                  0)
            << "tail row of " << p;
      }
    }
  }

  std::unique_ptr<PieceBackend> backend_ = std::make_unique<PieceBackend>();
  SnapshotProof proof_;
  std::vector<std::unique_ptr<KvCache>> caches_;

 private:
  void WriteRow(KvCache& cache, int64_t position) {
    const KvShape& shape = cache.shape();
    std::mt19937 row(static_cast<uint32_t>(position * 1000 + era_));
    const auto fill = [&](std::byte* to, int64_t bytes) {
      for (int64_t i = 0; i < bytes; ++i) to[i] = static_cast<std::byte>(row());
    };
    for (int64_t layer = 0; layer < shape.layers; ++layer) {
      for (int64_t head = 0; head < shape.kv_heads; ++head) {
        for (int64_t d = 0; d < shape.head_dim; ++d) fill(Key(cache, layer, position, head, d), shape.element_bytes());
        fill(Value(cache, layer, position, head), shape.head_dim * shape.element_bytes());
      }
    }
  }

  void WriteState(KvCache& cache, int64_t position, const std::vector<StateWrite>& writes) {
    const StateShape& shape = cache.shape().state;
    std::mt19937 random(static_cast<uint32_t>(position * 1000 + era_ + 500));
    const auto fill = [&](int64_t offset, int64_t bytes) {
      auto* to = static_cast<std::byte*>(cache.slab()) + offset;
      for (int64_t i = 0; i < bytes; ++i) to[i] = static_cast<std::byte>(random());
    };
    for (int64_t layer = 0; layer < shape.layers; ++layer)
      fill(shape.TailOffset(layer, position), shape.tail_row_bytes);
    for (const StateWrite& write : writes) fill(shape.BoundaryOffset(write.slot, 0), shape.slot_bytes());
  }

  std::mt19937 random_{1};
  int64_t era_ = 0;
  std::vector<Buffer> slabs_;
};

}  // namespace ringside
