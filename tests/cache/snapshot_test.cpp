// Snapshots: equal rows after capture and restore at every ring offset, in rings of other sizes, from incremental
// saves, and through serialization.
#include "cache/snapshot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>

#include "cache/kv_pool.h"
#include "tests/cache/snapshot_cache.h"

namespace ringside {
namespace {

TEST(RingRestore, ContinuesLikeTheSourceRing) {
  std::mt19937 random(5);
  for (int history = 0; history < 200; ++history) {
    const RingWindow window{static_cast<int64_t>(random() % 6), 20, random() % 2 ? Eviction::kTurn : Eviction::kToken};
    Ring ring(window, 24);
    for (int step = 0; step < 30; ++step) {
      if (random() % 3 == 0) ring.AddMessageStart(ring.next());
      ring.Append(1 + static_cast<int64_t>(random() % 5));
      const int64_t back = ring.next() - static_cast<int64_t>(random() % 4);
      if (ring.CanRollBack(back)) ring.RollBack(back);
    }
    Ring copy(window, 24 + static_cast<int64_t>(random() % 3) * 16);
    const std::vector<int64_t> starts(ring.message_starts().begin(), ring.message_starts().end());
    ASSERT_TRUE(copy.Restore(ring.next(), ring.resident(), starts).ok());
    EXPECT_EQ(copy.next(), ring.next());
    EXPECT_EQ(copy.unchanged(), ring.next());
    EXPECT_EQ(copy.resident(), ring.resident());
    for (int64_t to = 0; to <= ring.next(); ++to) {
      EXPECT_EQ(copy.CanRollBack(to), ring.CanRollBack(to)) << to;
      EXPECT_EQ(copy.FirstLive(to), ring.FirstLive(to));
    }
  }
}

TEST(RingRestore, SmallerRingHasFewerRows) {
  Ring ring({4, 8, Eviction::kToken}, 32);
  ASSERT_TRUE(ring.Restore(100, 60, {}).ok());
  EXPECT_EQ(ring.resident(), 68);
  EXPECT_TRUE(ring.CanRollBack(75));
  EXPECT_FALSE(ring.CanRollBack(74));
}

TEST(RingRestore, RefusesInvalidRings) {
  Ring ring({4, 8, Eviction::kToken}, 32);
  const auto refused = [&](int64_t next, int64_t resident, std::vector<int64_t> starts) {
    const Status status = ring.Restore(next, resident, std::move(starts));
    EXPECT_EQ(ring.next(), 0);
    EXPECT_EQ(ring.resident(), 4);
    EXPECT_TRUE(ring.message_starts().empty());
    return status.code() == StatusCode::kCorruption;
  };
  EXPECT_TRUE(refused(-1, 4, {}));
  EXPECT_TRUE(refused(100, 3, {}));
  EXPECT_TRUE(refused(100, 94, {}));  // the next position attends from 93 on
  EXPECT_TRUE(refused(100, 90, {5, 5}));
  EXPECT_TRUE(refused(100, 90, {7, 5}));
  EXPECT_TRUE(refused(100, 90, {-1}));
  EXPECT_TRUE(refused(int64_t{1} << 62, 4, {}));
  EXPECT_TRUE(refused(100, int64_t{1} << 62, {}));
  EXPECT_TRUE(ring.Restore(100, 93, {5, 9}).ok());
}

TEST(RingUnchanged, FallsWithRollBacksAndRisesWithMarks) {
  Ring ring({0, 8, Eviction::kToken}, 32);
  ring.Append(10);
  EXPECT_EQ(ring.unchanged(), 0);
  ring.MarkUnchanged();
  ring.Append(5);
  EXPECT_EQ(ring.unchanged(), 10);
  ring.RollBack(12);
  EXPECT_EQ(ring.unchanged(), 10);
  ring.RollBack(8);
  ring.Append(20);
  EXPECT_EQ(ring.unchanged(), 8);
  ring.Clear();
  EXPECT_EQ(ring.unchanged(), 0);
}

constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3};

struct SnapshotKind {
  DType dtype;
  bool has_state;
};

class SnapshotTest : public SnapshotCacheTest, public testing::WithParamInterface<SnapshotKind> {
 protected:
  SnapshotTest() : SnapshotCacheTest(GetParam().dtype, GetParam().has_state ? kState : StateShape{}) {}
};

TEST_P(SnapshotTest, RestoresEveryRowForEveryLengthAndRing) {
  for (const int64_t pinned : {0, 1, 16, 21}) {
    for (int64_t length = 0; length < 260; length += 1 + length % 7) {
      KvCache& cache = Fresh(0, {pinned, 40, Eviction::kToken});
      Grow(cache, length);
      const Snapshot snapshot = Capture(cache);
      EXPECT_TRUE(snapshot.complete());
      for (const size_t other : {1, 2, 3}) {  // an equal ring, a smaller and a larger one
        KvCache& restored = Fresh(other, {0, 1, Eviction::kToken});
        Scribble(restored);
        ASSERT_TRUE(snapshot.Restore(restored, *backend_, proof_).ok());
        ExpectSame(cache, restored);
        // Both continue identically.
        Grow(restored, 30);
        KvCache& reference = Fresh(4, {pinned, 40, Eviction::kToken});
        MakeEqual(reference, cache);
        Grow(reference, 30);
        ExpectSame(reference, restored);
      }
    }
  }
}

TEST_P(SnapshotTest, ExcludesThePreviousSlabContents) {
  for (const int64_t length : {3, 17, 40, 61, 100, 131}) {
    KvCache& cache = Fresh(0, {5, 40, Eviction::kToken});
    Scribble(cache);
    Grow(cache, length);
    const Snapshot first = Capture(cache);
    KvCache& again = Fresh(0, {5, 40, Eviction::kToken});
    std::memset(again.slab(), 0, static_cast<size_t>(again.shape().slab_bytes()));
    Grow(again, length);
    const Snapshot second = Capture(again);
    ASSERT_EQ(first.chunks().size(), second.chunks().size());
    for (size_t i = 0; i < first.chunks().size(); ++i) {
      EXPECT_EQ(HashOf(first.chunks()[i].bytes.bytes()), HashOf(second.chunks()[i].bytes.bytes())) << length;
    }
  }
}

TEST_P(SnapshotTest, IncrementalSavesEqualFullSaves) {
  std::mt19937 random(11);
  for (int history = 0; history < 30; ++history) {
    KvCache& cache = Fresh(0, {static_cast<int64_t>(random() % 20), 40, Eviction::kTurn});
    Snapshot saved = Capture(cache);
    for (int save = 0; save < 12; ++save) {
      for (uint32_t step = random() % 4; step > 0; --step) {
        Grow(cache, 1 + static_cast<int64_t>(random() % 30));
        const int64_t back = cache.ring().next() - static_cast<int64_t>(random() % 20);
        if (random() % 3 == 0 && cache.CanRollBack(back)) RollBack(cache, back);
      }
      const int64_t unchanged = cache.ring().unchanged(), next = cache.ring().next();
      Snapshot incremental = Capture(cache, &saved);
      // Chunks shared with the base alias its bytes: nothing was copied.
      size_t shared = 0;
      for (const SnapshotChunk& chunk : incremental.chunks()) {
        for (const SnapshotChunk& old : saved.chunks()) shared += chunk.bytes.data() == old.bytes.data();
      }
      if (unchanged == next && next == saved.header().next && next > 0) {
        EXPECT_EQ(shared, incremental.chunks().size());
      }
      KvCache& restored = Fresh(1, {0, 1, Eviction::kToken});
      Scribble(restored);
      ASSERT_TRUE(incremental.Restore(restored, *backend_, proof_).ok());
      ExpectSame(cache, restored);
      saved = std::move(incremental);
      if (random() % 4 == 0) {  // evicted from its slot and restored
        ASSERT_TRUE(saved.Restore(cache, *backend_, proof_).ok());
      }
    }
  }
}

TEST_P(SnapshotTest, ShortenedReplayIsCapturedOnceItsWindowIsFull) {
  if (GetParam().has_state) GTEST_SKIP() << "a replay with state starts at 0";
  KvCache& cache = Fresh(0, {4, 40, Eviction::kToken});
  Grow(cache, 4);
  cache.ring().SkipTo(500);
  EXPECT_FALSE(Snapshot::CanCapture(cache));
  Grow(cache, 20);
  EXPECT_FALSE(Snapshot::CanCapture(cache));
  Grow(cache, 25);
  ASSERT_TRUE(Snapshot::CanCapture(cache));
  Snapshot snapshot = Capture(cache, nullptr, 500);
  snapshot.Seal();
  const std::string header = snapshot.EncodeHeader();
  EXPECT_EQ(Snapshot::DecodeHeader(std::as_bytes(std::span(header)))->header().replay_start, 500);
  KvCache& restored = Fresh(1, {0, 1, Eviction::kToken});
  Scribble(restored);
  ASSERT_TRUE(snapshot.Restore(restored, *backend_, proof_).ok());
  ExpectSame(cache, restored);
  EXPECT_FALSE(restored.ring().CanRollBack(530));
}

TEST_P(SnapshotTest, IgnoresAnUnrelatedBase) {
  KvCache& other = Fresh(1, {0, 40, Eviction::kToken});
  Grow(other, 50);
  const Snapshot foreign = Capture(other);
  KvCache& cache = Fresh(0, {0, 40, Eviction::kToken});
  Grow(cache, 70);
  Capture(cache);  // discarded
  const Snapshot snapshot = Capture(cache, &foreign);
  KvCache& restored = Fresh(1, {0, 1, Eviction::kToken});
  ASSERT_TRUE(snapshot.Restore(restored, *backend_, proof_).ok());
  ExpectSame(cache, restored);
}

TEST_P(SnapshotTest, SerialisationRoundTrips) {
  for (const int64_t length : {0, 4, 39, 100, 201}) {
    KvCache& cache = Fresh(0, {5, 40, Eviction::kTurn});
    Grow(cache, length);
    Snapshot snapshot = Capture(cache, nullptr, 5);
    snapshot.Seal();
    const std::string bytes = snapshot.Encode();
    auto decoded = Snapshot::Decode(std::as_bytes(std::span(bytes)));
    ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
    EXPECT_EQ(decoded->header().tokens, snapshot.header().tokens);
    EXPECT_EQ(decoded->header().message_starts, snapshot.header().message_starts);
    EXPECT_EQ(decoded->header().id, snapshot.header().id);
    EXPECT_EQ(decoded->header().replay_start, 5);
    EXPECT_EQ(decoded->header().boundaries, snapshot.header().boundaries);
    EXPECT_TRUE(decoded->header().state == snapshot.header().state);
    EXPECT_EQ(decoded->Encode(), bytes);
    KvCache& restored = Fresh(1, {0, 1, Eviction::kToken});
    ASSERT_TRUE(decoded->Restore(restored, *backend_, proof_).ok());
    ExpectSame(cache, restored);
  }
}

TEST_P(SnapshotTest, FitsOnlyItsModelAndShape) {
  KvCache& cache = Fresh(0, {5, 40, Eviction::kTurn});
  Grow(cache, 100);
  const Snapshot snapshot = Capture(cache);
  const KvShape shape = cache.shape();
  EXPECT_TRUE(snapshot.CheckFits(proof_, shape).ok());
  const auto code = [&](auto change) {
    SnapshotProof proof = proof_;
    KvShape other = shape;
    change(proof, other);
    return snapshot.CheckFits(proof, other).code();
  };
  constexpr StatusCode kNo = StatusCode::kMismatch;
  EXPECT_EQ(code([](SnapshotProof& p, KvShape&) { p.fingerprint[31] ^= 1; }), kNo);
  EXPECT_EQ(code([](SnapshotProof& p, KvShape&) { p.shard = 1; }), kNo);
  EXPECT_EQ(code([](SnapshotProof& p, KvShape&) { p.shards = 2; }), kNo);
  EXPECT_EQ(code([](SnapshotProof&, KvShape& s) { ++s.layers; }), kNo);
  EXPECT_EQ(code([](SnapshotProof&, KvShape& s) { ++s.kv_heads; }), kNo);
  EXPECT_EQ(code([](SnapshotProof&, KvShape& s) { ++s.head_dim; }), kNo);
  for (const DType type : kTypes) {
    EXPECT_EQ(code([type](SnapshotProof&, KvShape& s) { s.dtype = type; }),
              type == shape.dtype ? StatusCode::kOk : kNo);
  }
  EXPECT_EQ(code([](SnapshotProof&, KvShape& s) { ++s.state.layers; }), kNo);
  EXPECT_EQ(code([](SnapshotProof&, KvShape& s) { s.state.boundary_bytes += 4; }), kNo);
  EXPECT_EQ(code([](SnapshotProof&, KvShape& s) { ++s.state.tail_row_bytes; }), kNo);
  EXPECT_EQ(code([](SnapshotProof&, KvShape& s) { ++s.state.slots; }), StatusCode::kOk);
  EXPECT_EQ(code([](SnapshotProof&, KvShape& s) { s.state = s.state.empty() ? kState : StateShape{}; }), kNo);
  EXPECT_EQ(code([](SnapshotProof&, KvShape& s) { s.pinned_tiles = 0; }), kNo);
  EXPECT_EQ(code([](SnapshotProof&, KvShape& s) { s.ring_tiles = 2; }), kNo);
  EXPECT_EQ(code([](SnapshotProof&, KvShape& s) { s.ring_tiles = 3; }), StatusCode::kOk);
  SnapshotProof wrong = proof_;
  wrong.fingerprint[0] ^= 1;
  EXPECT_EQ(snapshot.Restore(cache, *backend_, wrong).code(), kNo);
  EXPECT_EQ(cache.ring().next(), 100);  // refused before any change
}

TEST_P(SnapshotTest, SnapshotWithoutItsBytesIsNotRestored) {
  KvCache& cache = Fresh(0, {5, 40, Eviction::kTurn});
  Grow(cache, 100);
  Snapshot snapshot = Capture(cache);
  snapshot.Seal();
  const std::string header = snapshot.EncodeHeader();
  const auto skeleton = Snapshot::DecodeHeader(std::as_bytes(std::span(header)));
  ASSERT_TRUE(skeleton.ok());
  EXPECT_FALSE(skeleton->complete());
  EXPECT_EQ(skeleton->Restore(cache, *backend_, proof_).code(), StatusCode::kCorruption);
  EXPECT_EQ(cache.ring().next(), 0);
  EXPECT_EQ(cache.snapshot(), 0u);
}

TEST_P(SnapshotTest, ChunksHaveTheSizeTheSavingBackendRequests) {
  const RingWindow window{5, 40, Eviction::kToken};
  const int64_t tile = caches_[0]->shape().tile_bytes();
  const std::pair<int64_t, int64_t> cases[] = {{1, 1}, {2 * tile, 2}, {4 * tile - 1, 3}, {100 * tile, 8}};
  for (const auto& [bytes, tiles] : cases) {
    backend_->piece_bytes = bytes;
    KvCache& cache = Fresh(0, window);
    Grow(cache, 100);
    const Snapshot snapshot = Capture(cache);
    EXPECT_EQ(snapshot.header().tiles_per_chunk, tiles);
    EXPECT_EQ(SnapshotChunkBytes(cache.shape(), *backend_), tiles * tile);
    // Chunks of any size: every backend restores them, but its own saves do not build on them.
    backend_->piece_bytes = tile;
    KvCache& restored = Fresh(1, {0, 1, Eviction::kToken});
    Scribble(restored);
    ASSERT_TRUE(snapshot.Restore(restored, *backend_, proof_).ok());
    ExpectSame(cache, restored);
    const Snapshot again = Capture(restored, &snapshot);
    EXPECT_EQ(again.header().tiles_per_chunk, 1);
    KvCache& once_more = Fresh(0, window);
    ASSERT_TRUE(again.Restore(once_more, *backend_, proof_).ok());
    ExpectSame(restored, once_more);
  }
}

TEST_P(SnapshotTest, PredictsTheCaptureSize) {
  for (const int64_t pinned : {0, 5, 16, 20}) {
    KvCache& cache = Fresh(0, {pinned, 32, Eviction::kToken});
    Snapshot base;
    for (const int64_t more : {1, 3, 12, 30, 1, 40, 100}) {
      Grow(cache, more);
      const CaptureSize size = SizeOfCapture(cache, *backend_, &base);
      const uint64_t before = cache.snapshot();
      EXPECT_GE(SizeOfCapture(cache, *backend_, nullptr).chunks, size.chunks);
      Snapshot next = Capture(cache, &base);
      int64_t copied = 0;
      for (const SnapshotChunk& chunk : next.chunks()) {
        const auto same = [&](const SnapshotChunk& other) { return other.bytes.data() == chunk.bytes.data(); };
        copied += before != 0 && std::ranges::any_of(base.chunks(), same) ? 0 : 1;
      }
      EXPECT_EQ(size.chunks, copied) << pinned << " pinned, " << cache.ring().next() << " in all";
      EXPECT_LE(size.all_bytes, next.chunk_bytes() + cache.shape().tile_bytes());
      EXPECT_GE(size.all_bytes + next.header().tiles_per_chunk * cache.shape().tile_bytes(), next.chunk_bytes());
      base = std::move(next);
    }
  }
}

/// A cache of 48 rows with slots for 3 small boundaries.
class OlderBoundariesTest : public SnapshotCacheTest {
 protected:
  OlderBoundariesTest()
      : SnapshotCacheTest(DType::kF16, {.layers = 2, .boundary_bytes = 20, .tail_row_bytes = 8, .slots = 3}) {}
};

TEST_F(OlderBoundariesTest, StayInSnapshotsAndAreRestoredOnDemand) {
  KvCache& cache = Fresh(0, {0, 40, Eviction::kToken});
  Snapshot saved;
  std::map<int64_t, ChunkHash> first;  // each boundary as it was first stored
  for (int i = 0; i < 12; ++i) {
    Grow(cache, 64);
    saved = Capture(cache, &saved);
    saved.Seal();
    for (const SnapshotChunk& chunk : saved.chunks()) {
      if (chunk.region != SnapshotRegion::kBoundary) continue;
      const auto [known, is_new] = first.emplace(chunk.index * 64, *chunk.hash);
      EXPECT_TRUE(is_new || known->second == *chunk.hash) << known->first;
    }
  }
  EXPECT_EQ(saved.header().boundaries.size(), 12u);
  for (const int64_t wanted : {70, 127, 128, 400, 700, 768}) {
    KvCache& restored = Fresh(1, {0, 1, Eviction::kToken});
    Scribble(restored);
    auto pending = saved.BeginRestore(restored, *backend_, proof_, wanted);
    ASSERT_TRUE(pending.ok());
    backend_->WaitForCopy(pending->ticket);
    ExpectSame(cache, restored);
    EXPECT_EQ(restored.Floor(wanted), wanted == 768 ? 768 : wanted / 64 * 64);
    const StateShape& shape = restored.shape().state;
    for (const StateWrite& held : restored.state().held()) {
      const auto* bytes = static_cast<const std::byte*>(restored.slab()) + shape.BoundaryOffset(held.slot, 0);
      EXPECT_EQ(HashOf({bytes, static_cast<size_t>(shape.slot_bytes())}), first.at(held.position));
    }
  }
  // A boundary after a roll-back belongs to other tokens.
  KvCache& restored = Fresh(1, {0, 1, Eviction::kToken});
  ASSERT_TRUE(saved.BeginRestore(restored, *backend_, proof_, 768).ok());
  RollBack(restored, 0);
  Grow(restored, 100);
  const Snapshot other = Capture(restored, &saved);
  EXPECT_EQ(other.header().boundaries, (std::vector<int64_t>{64}));
  EXPECT_NE(HashOf(other.chunks()[other.chunks().size() - 2].bytes.bytes()), first.at(64));
}

TEST_F(OlderBoundariesTest, AreBoundedByTheBytesOfTheRows) {
  KvCache& cache = Fresh(0, {0, 40, Eviction::kToken});
  Snapshot saved;
  for (int i = 0; i < 300; ++i) {
    Grow(cache, 64);
    saved = Capture(cache, &saved);
  }
  const auto boundaries = std::ssize(saved.header().boundaries);
  EXPECT_GT(boundaries, 100);
  EXPECT_LE(2 * boundaries * saved.header().state.slot_bytes(), cache.shape().slab_bytes());
}

std::vector<SnapshotKind> Kinds() {
  std::vector<SnapshotKind> kinds;
  for (const DType type : kTypes) {
    for (const bool has_state : {false, true}) kinds.push_back({type, has_state});
  }
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Types, SnapshotTest, testing::ValuesIn(Kinds()), [](const auto& info) {
  return std::string(Traits(info.param.dtype).name) + (info.param.has_state ? "_state" : "");
});

}  // namespace
}  // namespace ringside
