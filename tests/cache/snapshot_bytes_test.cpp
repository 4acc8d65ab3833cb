// A snapshot's bytes as hostile input: every truncation, every flipped byte, and forged fields under a valid checksum.
#include <gtest/gtest.h>

#define XXH_STATIC_LINKING_ONLY  // XXH3 by that name
#include <xxhash.h>

#include <cstring>
#include <limits>
#include <random>
#include <string>

#include "tests/cache/snapshot_cache.h"

namespace ringside {
namespace {

std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

/// Recomputes the header's checksum.
void Reseal(std::string& header) {
  const uint64_t check = XXH3_64bits(header.data(), header.size() - 8);
  std::memcpy(header.data() + header.size() - 8, &check, 8);
}

// Without and with recurrent state.
class SnapshotBytesTest : public SnapshotCacheTest, public testing::WithParamInterface<bool> {
 protected:
  SnapshotBytesTest() : SnapshotCacheTest(DType::kF16, GetParam() ? kState : StateShape{}) {}
  void SetUp() override {
    KvCache& cache = Fresh(0, {5, 40, Eviction::kTurn});
    Grow(cache, 150);
    snapshot_ = Capture(cache);
    snapshot_.Seal();
    header_ = snapshot_.EncodeHeader();
    whole_ = snapshot_.Encode();
  }

  static bool IsTyped(const Status& status) {
    return status.code() == StatusCode::kCorruption || status.code() == StatusCode::kMismatch;
  }

  /// Uses a header as far as it decodes: matches chunks, then restores them into a cache. Nothing may crash; refusals
  /// must be typed.
  void Use(Snapshot& snapshot) {
    for (size_t i = 0; i < snapshot.chunks().size(); ++i) {
      if (i >= snapshot_.chunks().size()) break;
      const Status attached = snapshot.Attach(i, snapshot_.chunks()[i].bytes);
      ASSERT_TRUE(attached.ok() || IsTyped(attached));
    }
    KvCache& cache = Fresh(1, {0, 1, Eviction::kToken});
    const Status restored = snapshot.Restore(cache, *backend_, snapshot.header().proof);
    if (restored.ok()) {
      ASSERT_EQ(cache.ring().next(), snapshot.header().next);
    } else {
      ASSERT_TRUE(IsTyped(restored)) << restored.ToString();
    }
  }

  Snapshot snapshot_;
  std::string header_, whole_;
};

INSTANTIATE_TEST_SUITE_P(Both, SnapshotBytesTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "WithState" : "WithoutState"; });

TEST_P(SnapshotBytesTest, RefusesEveryTruncation) {
  for (size_t length = 0; length < header_.size(); ++length) {
    const std::string cut = header_.substr(0, length);
    ASSERT_TRUE(IsTyped(Snapshot::DecodeHeader(Bytes(cut)).status())) << length;
    ASSERT_TRUE(IsTyped(Snapshot::Decode(Bytes(cut)).status())) << length;
  }
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    const std::string cut = whole_.substr(0, header_.size() + random() % (whole_.size() - header_.size()));
    ASSERT_TRUE(IsTyped(Snapshot::Decode(Bytes(cut)).status())) << cut.size();
  }
  ASSERT_TRUE(IsTyped(Snapshot::Decode(Bytes(whole_ + 'x')).status()));
  ASSERT_TRUE(IsTyped(Snapshot::DecodeHeader(Bytes(header_ + 'x')).status()));
}

TEST_P(SnapshotBytesTest, RefusesEveryFlippedHeaderBit) {
  for (size_t i = 0; i < header_.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = header_;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      ASSERT_TRUE(IsTyped(Snapshot::DecodeHeader(Bytes(damaged)).status())) << i;
    }
  }
}

TEST_P(SnapshotBytesTest, RefusesRandomBitFlipsElsewhere) {
  std::mt19937 random(2);
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = whole_;
    char& byte = damaged[header_.size() + random() % (whole_.size() - header_.size())];
    byte = static_cast<char>(byte ^ (1 << random() % 8));
    ASSERT_EQ(Snapshot::Decode(Bytes(damaged)).status().code(), StatusCode::kCorruption);
  }
}

// After the checksum, which a forger can recompute, the decoder's own checks must hold.
TEST_P(SnapshotBytesTest, FalseFieldsWithAValidChecksumAreRefusedOrHarmless) {
  int accepted = 0;
  for (size_t i = 0; i + 8 < header_.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string forged = header_;
      forged[i] = static_cast<char>(forged[i] ^ (1 << bit));
      Reseal(forged);
      auto snapshot = Snapshot::DecodeHeader(Bytes(forged));
      if (!snapshot.ok()) {
        ASSERT_TRUE(IsTyped(snapshot.status()));
        continue;
      }
      ++accepted;
      Use(*snapshot);
    }
  }
  EXPECT_GT(accepted, 100);  // fingerprint, id, tokens, hashes: every value is valid
}

TEST_P(SnapshotBytesTest, AbsurdNumbersWithAValidChecksumAreRefusedOrHarmless) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max(), kMin = std::numeric_limits<int64_t>::min();
  const int64_t absurd[] = {0,
                            1,
                            -1,
                            2,
                            15,
                            16,
                            17,
                            149,
                            150,
                            151,
                            1 << 20,
                            int64_t{1} << 31,
                            int64_t{1} << 32,
                            int64_t{1} << 39,
                            int64_t{1} << 40,
                            int64_t{1} << 47,
                            int64_t{1} << 48,
                            int64_t{1} << 62,
                            kMax,
                            kMax - 1,
                            kMin,
                            kMin + 1};
  const auto try_it = [&](std::string forged) {
    Reseal(forged);
    auto snapshot = Snapshot::DecodeHeader(Bytes(forged));
    if (snapshot.ok()) {
      Use(*snapshot);
    } else {
      ASSERT_TRUE(IsTyped(snapshot.status()));
    }
  };
  for (size_t at = 8; at + 16 <= header_.size(); at += 4) {
    for (const int64_t value : absurd) {
      std::string forged = header_;
      std::memcpy(forged.data() + at, &value, 8);
      try_it(forged);
      if (HasFatalFailure()) return;
    }
  }
  std::mt19937_64 random(3);
  for (int i = 0; i < 20'000; ++i) {  // several fields at once
    std::string forged = header_;
    for (uint64_t n = 2 + random() % 4; n > 0; --n) {
      const int64_t value = random() % 2 ? absurd[random() % std::size(absurd)] : static_cast<int64_t>(random() % 300);
      std::memcpy(forged.data() + 72 + random() % (GetParam() ? 17 : 11) * 8, &value, 8);
    }
    try_it(forged);
    if (HasFatalFailure()) return;
  }
}

TEST_P(SnapshotBytesTest, RefusesOtherVersionsByName) {
  for (const char version : {0, 1, 6}) {  // 1: a different byte order
    std::string other = header_;
    other[8] = version;
    Reseal(other);
    EXPECT_EQ(Snapshot::DecodeHeader(Bytes(other)).status().code(), StatusCode::kMismatch);
  }
}

TEST_P(SnapshotBytesTest, RefusesTheOtherKindsVersion) {
  std::string other = header_;
  other[8] = GetParam() ? 2 : 3;
  Reseal(other);
  EXPECT_TRUE(IsTyped(Snapshot::DecodeHeader(Bytes(other)).status()));
}

TEST_P(SnapshotBytesTest, RefusesAnotherDistanceOfBoundariesByName) {
  if (!GetParam()) GTEST_SKIP() << "it has no boundaries";
  std::string other = header_;
  other[152] = 32;
  Reseal(other);
  EXPECT_EQ(Snapshot::DecodeHeader(Bytes(other)).status().code(), StatusCode::kMismatch);
}

TEST_P(SnapshotBytesTest, RefusesImpossibleBoundaries) {
  if (!GetParam()) GTEST_SKIP() << "it has no boundaries";
  ASSERT_EQ(snapshot_.header().boundaries, (std::vector<int64_t>{64, 128}));
  const auto refused = [&](size_t at, int64_t value) {
    std::string forged = header_;
    std::memcpy(forged.data() + at, &value, 8);
    Reseal(forged);
    return Snapshot::DecodeHeader(Bytes(forged)).status().code() == StatusCode::kCorruption;
  };
  constexpr size_t kLayers = 160, kBoundaryBytes = 168, kRowBytes = 176, kCount = 184, kFirst = 192, kSecond = 200;
  for (const int64_t value : {0, -1, 4097}) EXPECT_TRUE(refused(kLayers, value)) << value;
  for (const int64_t value : {0, -4, 1 << 31}) EXPECT_TRUE(refused(kBoundaryBytes, value)) << value;
  EXPECT_TRUE(refused(kBoundaryBytes, 1 << 30)) << "more parts than the table has";
  for (const int64_t value : {0, -1, 1 << 25}) EXPECT_TRUE(refused(kRowBytes, value)) << value;
  for (const int64_t value : {0, 1, 3, 1 << 30}) EXPECT_TRUE(refused(kCount, value)) << value;
  for (const int64_t value : {0, -64, 63, 128, 192}) EXPECT_TRUE(refused(kFirst, value)) << value;
  for (const int64_t value : {0, 64, 192, 127}) EXPECT_TRUE(refused(kSecond, value)) << value;
  EXPECT_FALSE(refused(kFirst, 64));
}

TEST_P(SnapshotBytesTest, EveryChunkOfTheStateIsVerified) {
  for (size_t i = 0; i < snapshot_.chunks().size(); ++i) {
    Snapshot again = std::move(*Snapshot::DecodeHeader(Bytes(header_)));
    Blob damaged = Blob::CopyOf(snapshot_.chunks()[i].bytes.bytes());
    damaged.writable()[damaged.size() / 2] ^= std::byte{1};
    EXPECT_EQ(again.Attach(i, damaged).code(), StatusCode::kCorruption) << i;
    for (size_t other = 0; other < snapshot_.chunks().size(); ++other) {
      if (other == i) continue;
      const Status attached = again.Attach(i, snapshot_.chunks()[other].bytes);
      EXPECT_TRUE(!attached.ok() || *snapshot_.chunks()[i].hash == *snapshot_.chunks()[other].hash);
    }
  }
}

/// The header of a cache of two layers.
std::string HeaderOf(const KvShape& shape) {
  const std::unique_ptr<Backend> backend = std::move(*MakeCpuBackend({.threads = 1}));
  auto slab = backend->Allocate(static_cast<size_t>(shape.slab_bytes()));
  KvCache cache(shape, slab->data());
  cache.Reset({1, 8, Eviction::kTurn});
  cache.ring().Append(3);
  Snapshot snapshot = Snapshot::Capture(cache, *backend, {}, std::vector<int32_t>{1, 20, 21}, 0);
  snapshot.Seal();
  return snapshot.EncodeHeader();
}

TEST(SnapshotLayersTest, ReturnInAHeaderOfTheirVersion) {
  KvShape latent{2, 1, 24, DType::kF16, 1, 1}, varied{2, 2, 16, DType::kF16, 1, 1};
  latent.latent_dim = 16;
  varied.varied = {{2, 8}, {1, 16}};
  for (const KvShape& shape : {latent, varied}) {
    std::string header = HeaderOf(shape);
    EXPECT_EQ(header[8], 4);
    const auto read = Snapshot::DecodeHeader(Bytes(header));
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    EXPECT_TRUE(read->CheckFits({}, shape).ok());
    EXPECT_EQ(read->header().tile_bytes(), shape.tile_bytes());
    KvShape other = shape;
    other.latent_dim = shape.latent_dim == 0 ? 8 : 0;
    EXPECT_EQ(read->CheckFits({}, other).code(), StatusCode::kMismatch);
    other = shape;
    other.varied = {{2, 8}, {2, 16}};
    EXPECT_EQ(read->CheckFits({}, other).code(), StatusCode::kMismatch);
  }
}

TEST(SnapshotLayersTest, ImpossibleOnesAreRefused) {
  KvShape shape{2, 2, 16, DType::kF16, 1, 1};
  shape.varied = {{2, 8}, {1, 16}};
  const std::string header = HeaderOf(shape);
  constexpr size_t kLatent = 180, kCount = 188, kHeads = 196, kSize = 204;  // after three tokens
  const auto refused = [&](size_t at, int64_t value) {
    std::string forged = header;
    std::memcpy(forged.data() + at, &value, 8);
    Reseal(forged);
    return Snapshot::DecodeHeader(Bytes(forged)).status().code() == StatusCode::kCorruption;
  };
  for (const int64_t value : {-1, 9, 17}) EXPECT_TRUE(refused(kLatent, value)) << value;
  for (const int64_t value : {0, 1, 3, -1, 1 << 30}) EXPECT_TRUE(refused(kCount, value)) << value;
  for (const int64_t value : {0, -1, 4097}) EXPECT_TRUE(refused(kHeads, value)) << value;
  for (const int64_t value : {0, -1, 65537}) EXPECT_TRUE(refused(kSize, value)) << value;
  EXPECT_FALSE(refused(kSize, 8));
}

TEST(SnapshotExampleTest, OutputMatchesTheDocumentedExample) {
  // The example header of cache/SNAPSHOT.md: 1 layer, 1 head of 2 dimensions, 3 tokens, the first pinned.
  const std::unique_ptr<Backend> backend = std::move(*MakeCpuBackend({.threads = 1}));
  KvShape shape{1, 1, 2, DType::kF16, 1, 1};
  auto slab = backend->Allocate(static_cast<size_t>(shape.slab_bytes()));
  ASSERT_TRUE(slab.ok());
  KvCache cache(shape, slab->data());
  cache.Reset({1, 8, Eviction::kTurn});
  cache.ring().AddMessageStart(1);
  cache.ring().Append(3);
  SnapshotProof proof;
  proof.fingerprint.fill(0xab);
  Snapshot snapshot = Snapshot::Capture(cache, *backend, proof, std::vector<int32_t>{1, 20, 21}, 0);
  snapshot.Seal();
  const std::string bytes = snapshot.EncodeHeader();
  const auto number = [&](size_t at, size_t size) {
    uint64_t value = 0;
    std::memcpy(&value, bytes.data() + at, size);
    return value;
  };
  ASSERT_EQ(bytes.size(), 268u);
  EXPECT_EQ(bytes.substr(0, 8), "RSKVSNAP");
  EXPECT_EQ(number(8, 4), 2u);     // version
  EXPECT_EQ(number(12, 4), 268u);  // length
  EXPECT_EQ(bytes.substr(16, 32), std::string(32, '\xab'));
  EXPECT_EQ(number(48, 4), 0u);  // shard 0 ...
  EXPECT_EQ(number(52, 4), 1u);  // ... of 1
  EXPECT_EQ(number(56, 8), snapshot.header().id);
  EXPECT_EQ(number(64, 4), 1u);  // f16
  EXPECT_EQ(number(68, 4), 0u);  // eviction by turn
  const uint64_t fields[] = {1, 1, 2, 8, 1, 8, 3, 1, 1, 0};
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(number(72 + 8 * i, 8), fields[i]) << i;
  EXPECT_EQ(number(152, 8), 1u);  // message starts
  EXPECT_EQ(number(160, 8), 1u);
  EXPECT_EQ(number(168, 8), 3u);  // tokens
  EXPECT_EQ(number(176, 4), 1u);
  EXPECT_EQ(number(180, 4), 20u);
  EXPECT_EQ(number(184, 4), 21u);
  EXPECT_EQ(number(188, 8), 2u);  // chunks
  EXPECT_EQ(number(196, 4), 1u);  // the pinned tile
  EXPECT_EQ(number(200, 4), 1u);
  EXPECT_EQ(number(204, 8), 0u);
  EXPECT_EQ(number(228, 4), 0u);  // the ring's
  EXPECT_EQ(number(232, 4), 1u);
  EXPECT_EQ(number(236, 8), 0u);
  EXPECT_EQ(number(260, 8), XXH3_64bits(bytes.data(), 260));
  EXPECT_EQ(snapshot.chunk_bytes(), 2 * 128);
}

TEST(SnapshotExampleTest, OutputWithStateMatchesTheDocumentedExample) {
  const std::unique_ptr<Backend> backend = std::move(*MakeCpuBackend({.threads = 1}));
  KvShape shape{1, 1, 2, DType::kF16, 1, 5, {.layers = 1, .boundary_bytes = 8, .tail_row_bytes = 4, .slots = 2}};
  auto slab = backend->Allocate(static_cast<size_t>(shape.slab_bytes()));
  ASSERT_TRUE(slab.ok());
  KvCache cache(shape, slab->data());
  cache.Reset({1, 64, Eviction::kToken});
  std::vector<StateWrite> writes;
  cache.Append(65, &writes);
  std::vector<int32_t> tokens(65, 7);
  Snapshot snapshot = Snapshot::Capture(cache, *backend, {}, tokens, 0);
  snapshot.Seal();
  const std::string bytes = snapshot.EncodeHeader();
  const auto number = [&](size_t at, size_t size) {
    uint64_t value = 0;
    std::memcpy(&value, bytes.data() + at, size);
    return value;
  };
  ASSERT_EQ(bytes.size(), 620u);
  EXPECT_EQ(number(8, 4), 3u);  // version
  const uint64_t state[] = {64, 1, 8, 4, 1, 64, 0, 65};
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(number(152 + 8 * i, 8), state[i]) << i;
  EXPECT_EQ(number(476, 8), 4u);  // chunks
  const uint64_t chunks[4][3] = {{1, 1, 0}, {0, 4, 0}, {2, 0, 1}, {3, 0, 1}};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(number(484 + 32 * i, 4), chunks[i][0]) << i;
    EXPECT_EQ(number(488 + 32 * i, 4), chunks[i][1]) << i;
    EXPECT_EQ(number(492 + 32 * i, 8), chunks[i][2]) << i;
  }
  EXPECT_EQ(number(612, 8), XXH3_64bits(bytes.data(), 612));
  EXPECT_EQ(snapshot.chunk_bytes(), 5 * 128 + 8 + 4);
}

}  // namespace
}  // namespace ringside
