// Attention over the ring on every kind of device, against dense attention in double: every head size and grouping, a
// ring that wraps 0 to 2.5 times, whole chunks and single rows, one sequence and many, with NaN in all rows that must
// not be read.
#include "tests/kernels/device_attention.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>

namespace ringside::testing {
namespace {

class DeviceAttention : public AttentionTest, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override { Use(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(All, DeviceAttention, ::testing::ValuesIn(DeviceNames()),
                         [](const auto& info) { return info.param; });

class NumberedAttention : public AttentionTest, public ::testing::WithParamInterface<DeviceAndNumber> {
 protected:
  void SetUp() override { Use(std::get<0>(GetParam())); }
  static int64_t number() { return std::get<1>(GetParam()); }
};
class DeviceAttentionOfHeadSize : public NumberedAttention {};
INSTANTIATE_TEST_SUITE_P(All, DeviceAttentionOfHeadSize,
                         ::testing::Combine(::testing::ValuesIn(DeviceNames()),
                                            ::testing::Values(6, 16, 64, 80, 96, 128, 256, 512)),
                         NameOf);
class DeviceAttentionBehindPins : public NumberedAttention {};
INSTANTIATE_TEST_SUITE_P(All, DeviceAttentionBehindPins,
                         ::testing::Combine(::testing::ValuesIn(DeviceNames()), ::testing::Values(0, 1, 4, 32)),
                         NameOf);

TEST_P(DeviceAttentionOfHeadSize, MatchesDenseAttention) {
  const int64_t d = number();
  for (const RopePairs pairs : {RopePairs::kAdjacent, RopePairs::kHalves, RopePairs::kNone}) {
    for (const DType cache : {DType::kF16, DType::kBF16, DType::kF32, DType::kF8E4M3}) {
      const AttentionCase c{.heads = 6,
                            .kv_heads = 2,
                            .head_dim = d,
                            .rotary = pairs == RopePairs::kAdjacent ? d : (d / 2 + 1) / 2 * 2,
                            .pairs = pairs,
                            .kv_dtype = cache,
                            .pinned = 3,
                            .memory = 20,
                            .length = 50};
      for (const int64_t chunk : {1, 7, 50}) {
        ExpectNear(OverTheRing(*backend_, c, chunk), DenseAttention(c), cache, Traits(cache).name.data());
      }
    }
  }
}

TEST_P(DeviceAttentionOfHeadSize, RowsOfARangeSeeEachOther) {
  for (const DType cache : {DType::kF16, DType::kBF16, DType::kF32, DType::kF8E4M3}) {
    for (const int64_t window : {0, 7}) {
      AttentionCase c{.heads = 6,
                      .kv_heads = 2,
                      .head_dim = number(),
                      .rotary = number(),
                      .pairs = RopePairs::kHalves,
                      .kv_dtype = cache,
                      .pinned = 12,
                      .memory = 90,
                      .length = 400,
                      .window = window};
      c.mutual = {{2, 12}, {12, 30}, {60, 100}, {150, 300}, {310, 340}};
      for (const int64_t chunk : {1, 20, 400}) {
        ExpectNear(OverTheRing(*backend_, c, chunk), DenseAttention(c), cache, Traits(cache).name.data());
      }
    }
  }
}

// Two branches of one history that begin in the middle of a tile; also where the ring wraps before or afterwards.
TEST_P(DeviceAttentionOfHeadSize, BranchesReadTheHistoryInPlace) {
  constexpr int64_t kPinned = 5, kRows = 64;
  for (const int64_t begins : {5, 21, 36, 180, 317}) {
    AttentionCase c{.heads = 6,
                    .kv_heads = 2,
                    .head_dim = number(),
                    .rotary = number(),
                    .pairs = RopePairs::kHalves,
                    .kv_dtype = type_,
                    .pinned = kPinned,
                    .memory = 130,
                    .slack = 13,
                    .length = begins + kRows,
                    .ring_rows = 208};
    const KvShape shape = c.Shape(kRows);
    const auto bytes = static_cast<size_t>(shape.slab_bytes());
    const std::vector<std::byte> nan(bytes, std::byte{0xff});
    std::vector<Buffer> slabs;
    for (int i = 0; i < 3; ++i) {
      slabs.push_back(std::move(backend_->Allocate(bytes).value()));
      backend_->CopyToDevice(slabs.back().data(), nan.data(), bytes);
    }
    backend_->Synchronize();
    const void* history = slabs[0].data();
    for (int64_t at = 0; at < begins; at += kRows) {
      Step(*backend_, {c}, shape, {history}, at, std::min(kRows, begins - at));
    }
    const int64_t branch = begins - (begins - kPinned) % KvShape::kTile;
    const auto* begun =
        static_cast<const std::byte*>(history) + shape.Slot(branch, kPinned) / KvShape::kTile * shape.tile_bytes();
    for (int i = 1; i < 3; ++i) {
      backend_->CopyOnDevice(slabs[static_cast<size_t>(i)].data(), begun, static_cast<size_t>(shape.tile_bytes()));
    }
    const std::vector<double> all = DenseAttention(c);
    const auto columns = static_cast<size_t>(c.heads * c.head_dim);
    const std::vector<double> want(all.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(begins) * columns),
                                   all.end());
    std::vector<float> got[2];
    for (int64_t at = begins; at < c.length;) {
      const int64_t rows = at == begins ? 1 : at + 20 > c.length ? c.length - at : at % 20 + 1;
      const auto out = Step(*backend_, {c, c}, shape, {slabs[1].data(), slabs[2].data()}, at, rows, history, branch);
      for (size_t i = 0; i < 2; ++i) got[i].insert(got[i].end(), out[i].begin(), out[i].end());
      at += rows;
    }
    for (const std::vector<float>& one : got) ExpectNear(one, want, c.kv_dtype, "a branch");
  }
}

// A gate may be applied by the attention kernel.
TEST_P(DeviceAttention, ResultsCanHaveGates) {
  for (const int64_t d : {24, 64, 256}) {
    const AttentionCase c{.heads = 4, .kv_heads = 2, .head_dim = d, .rotary = d, .memory = 60, .length = 60};
    std::vector<double> plain = DenseAttention(c);
    const int64_t columns = c.heads * d;
    for (const int64_t gates : {columns, c.heads}) {
      std::vector<double> want = plain;
      for (int64_t i = 0; i < std::ssize(want); ++i) {
        want[static_cast<size_t>(i)] /= 1 + std::exp(-GateValue(i % columns / (columns / gates)));
      }
      for (const int64_t chunk : {1, 3, 40}) {
        const KvShape shape = c.Shape(chunk);
        const Buffer slab = std::move(backend_->Allocate(static_cast<size_t>(shape.slab_bytes())).value());
        std::vector<float> got;
        for (int64_t done = 0; done < c.length; done += chunk) {
          const auto rows = Step(*backend_, {c}, shape, {slab.data()}, done, chunk, nullptr, 0, gates);
          got.insert(got.end(), rows[0].begin(), rows[0].end());
        }
        SCOPED_TRACE(fmt::format("{} dimensions, {} gates, chunks of {}", d, gates, chunk));
        ExpectNear(got, want, c.kv_dtype, "gated");
      }
    }
  }
}

TEST_P(DeviceAttention, MatchesDenseAttentionForEveryGrouping) {
  for (const auto& [heads, kv_heads] :
       {std::pair<int64_t, int64_t>{1, 1}, {4, 4}, {9, 3}, {8, 2}, {5, 1}, {8, 1}, {17, 1}, {40, 2}}) {
    const AttentionCase c{.heads = heads,
                          .kv_heads = kv_heads,
                          .head_dim = 64,
                          .rotary = 64,
                          .pairs = RopePairs::kHalves,
                          .pinned = 2,
                          .memory = 30,
                          .slack = 7,
                          .length = 50};
    for (const int64_t chunk : {1, 50}) {
      ExpectNear(OverTheRing(*backend_, c, chunk), DenseAttention(c), c.kv_dtype, "grouping");
    }
  }
}

TEST_P(DeviceAttentionBehindPins, MatchesDenseAttentionAcrossRingWraps) {
  const int64_t pinned = number();
  for (const double turns : {0.0, 1.0, 2.5}) {
    AttentionCase c{.heads = 3,
                    .kv_heads = 1,
                    .head_dim = 64,
                    .rotary = 64,
                    .pairs = RopePairs::kHalves,
                    .pinned = pinned,
                    .memory = 100,
                    .slack = 13,
                    .length = pinned + 90 + static_cast<int64_t>(100 * turns)};
    for (const int64_t chunk : {1, 9, 64}) {
      ExpectNear(OverTheRing(*backend_, c, chunk), DenseAttention(c), c.kv_dtype, "turns");
    }
  }
}

// Long enough that keys, including pinned ones, are split over blocks, and that there are many rows.
TEST_P(DeviceAttention, MatchesDenseAttentionOverManyKeys) {
  for (const DType cache : {DType::kF16, DType::kF8E4M3}) {
    AttentionCase c{.heads = 3,
                    .kv_heads = 1,
                    .head_dim = 64,
                    .rotary = 64,
                    .pairs = RopePairs::kHalves,
                    .kv_dtype = cache,
                    .pinned = 200,
                    .memory = 600,
                    .length = 1000};
    const std::vector<double> want = DenseAttention(c);
    ExpectNear(OverTheRing(*backend_, c, 300), want, c.kv_dtype, "many keys, many rows");
    for (const int64_t before : {300, 700, 850, 950}) {  // then rows one by one, including while and after the ring
                                                         // wraps
      AttentionCase part = c;
      part.length = before + 50;
      ExpectNear(OverTheRing(*backend_, part, 1, before),
                 std::vector<double>(want.begin(), want.begin() + part.length * c.heads * c.head_dim), c.kv_dtype,
                 "many keys, single rows");
    }
  }
}

// More (sequence, head) pairs than a GPU has resident blocks: two and sixteen queries each, few keys and many.
TEST_P(DeviceAttention, MatchesDenseAttentionForManySequences) {
  const int64_t copies = GetParam() == "cpu" ? 1 : 8;
  constexpr int64_t kRows = 3, kLength = 140, kHeadDim = 128;
  for (const auto& [heads, kv_heads, cache] :
       {std::tuple<int64_t, int64_t, DType>{32, 16, type_ == DType::kF32 ? DType::kF16 : type_},
        {64, 4, DType::kF16},
        {16, 8, DType::kF8E4M3}}) {
    if (cache == DType::kF8E4M3 && GetParam() == "cpu")
      continue;  // at a tie, keys are rounded differently than in
                 // double

    const KvShape shape{
        .layers = 1, .kv_heads = kv_heads, .head_dim = kHeadDim, .dtype = cache, .pinned_tiles = 2, .ring_tiles = 20};
    const auto bytes = static_cast<size_t>(shape.slab_bytes());
    const std::vector<std::byte> nan(bytes, std::byte{0xff});
    std::vector<AttentionCase> cases;
    std::vector<Buffer> slabs;
    std::vector<const void*> addresses;
    for (const int64_t memory : {9, 40, 96, 300}) {
      const AttentionCase c{.heads = heads,
                            .kv_heads = kv_heads,
                            .head_dim = kHeadDim,
                            .rotary = kHeadDim,
                            .pairs = RopePairs::kHalves,
                            .kv_dtype = cache,
                            .pinned = memory % 3 * 20,
                            .memory = memory,
                            .length = kLength,
                            .ring_rows = 320};
      const size_t first = slabs.size();
      for (int64_t i = 0; i < copies; ++i) {
        slabs.push_back(std::move(backend_->Allocate(bytes).value()));
        cases.push_back(c), addresses.push_back(slabs.back().data());
        backend_->CopyToDevice(slabs.back().data(), nan.data(), bytes);
        backend_->Synchronize();
      }
      for (int64_t at = 0; at < kLength - kRows; at += 64) {
        Step(*backend_, {c}, shape, {addresses[first]}, at, std::min<int64_t>(64, kLength - kRows - at));
      }
      for (size_t i = first + 1; i < slabs.size(); ++i) {
        backend_->CopyOnDevice(slabs[i].data(), addresses[first], bytes);
      }
    }
    std::vector<std::vector<float>> outputs(cases.size());
    for (int64_t at = kLength - kRows; at < kLength; ++at) {
      const auto step = Step(*backend_, cases, shape, addresses, at, 1);
      for (size_t i = 0; i < cases.size(); ++i) outputs[i].insert(outputs[i].end(), step[i].begin(), step[i].end());
    }
    std::vector<double> want;
    for (size_t i = 0; i < cases.size(); ++i) {
      if (i % static_cast<size_t>(copies) == 0) want = DenseAttention(cases[i]);
      ExpectNear(outputs[i], std::vector<double>(want.end() - kRows * heads * kHeadDim, want.end()), cache, "of many");
    }
  }
}

// The first row's attention is its value, as stored in the cache.
TEST_P(DeviceAttention, E4M3CacheRoundsToNearestAndSaturates) {
  for (const int64_t d : {6, 64}) {
    const AttentionCase c{.heads = 1, .kv_heads = 1, .head_dim = d, .rotary = d, .kv_dtype = DType::kF8E4M3};
    const KvShape shape = c.Shape(1);
    const AngleRows angles(c, 0, 1);
    std::vector<float> qkv(static_cast<size_t>(3 * d), 1.0f), want;
    for (int64_t i = 0; i < d; ++i) {
      const float cases[][2] = {{1000, 448}, {-60000, -448}, {400, 384}, {0.0009765625f, 0}, {17, 16}, {-19, -20}};
      qkv[static_cast<size_t>(2 * d + i)] = cases[i % 6][0];
      want.push_back(cases[i % 6][1]);
    }
    Buffer slab = std::move(backend_->Allocate(static_cast<size_t>(shape.slab_bytes())).value());
    const int64_t first_live = 0;
    const AttentionSegment segment{.rows = 1, .first_live = &first_live, .slab = slab.data()};
    DeviceMatrix in(*backend_, type_, 1, 3 * d, qkv), out(*backend_, type_, 1, d, want);
    backend_->Attention({.qkv = in.tensor(),
                         .out = out.tensor(),
                         .shape = shape,
                         .heads = 1,
                         .rotary = d,
                         .pairs = c.pairs,
                         .angles = angles.angles(),
                         .scores = {.scale = 1},
                         .segments = {&segment, 1}});
    EXPECT_EQ(out.Get(), want) << d;
  }
}

// Chunks with arbitrary row counts, with few and many pinned positions.
TEST_P(DeviceAttention, MatchesDenseAttentionForManyRows) {
  struct Size {
    int64_t head_dim, heads, kv_heads, pinned;
  };
  for (const Size size : {Size{64, 3, 1, 4},
                          {64, 2, 2, 0},
                          {64, 8, 1, 40},
                          {128, 4, 1, 4},
                          {128, 8, 1, 37},
                          {128, 3, 3, 16},
                          {256, 4, 2, 3}}) {
    for (const RopePairs pairs : {RopePairs::kHalves, RopePairs::kNone}) {
      for (const DType cache : {DType::kF16, DType::kBF16, DType::kF8E4M3}) {
        const AttentionCase c{.heads = size.heads,
                              .kv_heads = size.kv_heads,
                              .head_dim = size.head_dim,
                              .rotary = size.head_dim,
                              .pairs = pairs,
                              .kv_dtype = cache,
                              .pinned = size.pinned,
                              .memory = 130,
                              .slack = 5,
                              .length = 310};
        for (const int64_t chunk : {41, 157}) {
          ExpectNear(OverTheRing(*backend_, c, chunk), DenseAttention(c), cache, "many rows");
        }
      }
    }
  }
}

/// Every trait of kernels/score_traits.h and the factors of queries, alone and combined.
std::vector<AttentionCase> TraitCases(const AttentionCase& plain) {
  std::vector<float> slopes, sinks;
  for (int64_t h = 0; h < plain.heads; ++h) {
    slopes.push_back(0.5f / static_cast<float>(1 << h)), sinks.push_back(static_cast<float>(2 * h - 3));
  }
  std::vector<AttentionCase> cases(11, plain);
  cases[0].soft_cap = 1.5f;
  cases[1].slopes = slopes;
  cases[2].sinks = sinks;
  cases[3].window = 3;
  cases[4].window = plain.memory - 7;
  cases[5].soft_cap = 2, cases[5].slopes = slopes, cases[5].sinks = sinks, cases[5].window = plain.memory / 2;
  cases[6].window = plain.memory / 3, cases[6].chunked = true;
  cases[7].window = plain.memory + 3, cases[7].chunked = true;
  cases[8].query_weights = RandomFloats(static_cast<size_t>(plain.head_dim), 5, 0.7f);
  cases[9].query_scales = RandomFloats(static_cast<size_t>(plain.length), 6, 0.7f);
  cases[10] = cases[6], cases[10].query_weights = cases[8].query_weights,
  cases[10].query_scales = cases[9].query_scales;
  return cases;
}

class DeviceAttentionTraits : public NumberedAttention {};
INSTANTIATE_TEST_SUITE_P(All, DeviceAttentionTraits,
                         ::testing::Combine(::testing::ValuesIn(DeviceNames()), ::testing::Values(24, 64, 128, 256)),
                         NameOf);

TEST_P(DeviceAttentionTraits, MatchDenseAttentionAcrossRingWraps) {
  const int64_t d = number();
  for (const DType cache : {d == 64 ? DType::kBF16 : DType::kF16, d == 24 ? DType::kF32 : DType::kF8E4M3}) {
    const AttentionCase plain{.heads = 2,
                              .kv_heads = 1,
                              .head_dim = d,
                              .rotary = d,
                              .pairs = RopePairs::kHalves,
                              .kv_dtype = cache,
                              .pinned = 5,
                              .memory = 40,
                              .slack = 7,
                              .length = 100};
    const std::vector<AttentionCase> cases = TraitCases(plain);
    for (size_t i = 0; i < cases.size(); ++i) {
      const std::vector<double> want = DenseAttention(cases[i]);
      SCOPED_TRACE(fmt::format("trait {}, a cache of {}", i, Traits(cache).name));
      ExpectNear(OverTheRing(*backend_, cases[i], 41), want, cache, "chunks");
      ExpectNear(OverTheRing(*backend_, cases[i], 1, 80), want, cache, "single rows");
    }
  }
}

// Keys are split over blocks: a sink must count once.
TEST_P(DeviceAttention, TraitsMatchDenseAttentionOverManyKeys) {
  const AttentionCase plain{.heads = 3,
                            .kv_heads = 1,
                            .head_dim = 64,
                            .rotary = 64,
                            .pairs = RopePairs::kHalves,
                            .pinned = 200,
                            .memory = 600,
                            .length = 700};
  std::vector<AttentionCase> cases = TraitCases(plain);
  cases[5].window = 790;  // finally some pinned keys are outside the window
  for (const size_t i : {2, 5, 7, 8, 9, 10}) {
    const std::vector<double> want = DenseAttention(cases[i]);
    for (const int64_t chunk : {1, 300}) {
      SCOPED_TRACE(fmt::format("trait {} in chunks of {}", i, chunk));
      ExpectNear(OverTheRing(*backend_, cases[i], chunk, chunk == 1 ? 690 : 0), want, plain.kv_dtype, "many keys");
    }
  }
}

// Layers of one step that differ in window, rotation and traits, in any order.
TEST_P(DeviceAttention, LayersOfAStepAreIndependent) {
  constexpr int64_t kLayers = 5, kRows = 40;
  const AttentionCase plain{.heads = 4,
                            .kv_heads = 2,
                            .head_dim = 64,
                            .rotary = 64,
                            .pairs = RopePairs::kHalves,
                            .memory = 100,
                            .length = 80};
  std::vector<AttentionCase> cases(kLayers, plain);
  cases[0].pairs = RopePairs::kNone;
  cases[1].window = 16;
  cases[2].soft_cap = 1.5f;
  cases[4].window = 16, cases[4].pairs = RopePairs::kNone;
  const KvShape shape = plain.Shape(kRows, kLayers);
  Buffer slab = std::move(backend_->Allocate(static_cast<size_t>(shape.slab_bytes())).value());
  const std::vector<float> qkv = plain.Qkv();
  const std::vector<int64_t> first_live(kRows, 0);
  const int64_t columns = plain.heads * plain.head_dim;
  std::vector<float> outputs[kLayers];
  for (int64_t done = 0; done < plain.length; done += kRows) {
    const AngleRows angles(plain, done, kRows);
    const AttentionSegment segment{
        .rows = kRows, .position = done, .first_live = first_live.data(), .slab = slab.data()};
    DeviceMatrix in(*backend_, type_, kRows, plain.width(),
                    {qkv.begin() + done * plain.width(), qkv.begin() + (done + kRows) * plain.width()});
    const DeviceMatrix out(*backend_, type_, kLayers * kRows, columns,
                           std::vector<float>(static_cast<size_t>(kLayers * kRows * columns), NAN));
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      const AttentionCase& c = cases[static_cast<size_t>(layer)];
      backend_->Attention({.qkv = in.tensor(),
                           .out = out.tensor().Rows(layer * kRows, kRows),
                           .layer = layer,
                           .shape = shape,
                           .heads = c.heads,
                           .rotary = c.rotary,
                           .pairs = c.pairs,
                           .angles = c.pairs == RopePairs::kNone ? RopeAngles{} : angles.angles(),
                           .scores = c.scores(),
                           .segments = {&segment, 1},
                           .step = static_cast<uint64_t>(done + 1)});
    }
    const std::vector<float> rows = out.Get();
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      const auto first = rows.begin() + layer * kRows * columns;
      outputs[layer].insert(outputs[layer].end(), first, first + kRows * columns);
    }
  }
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    SCOPED_TRACE(layer);
    ExpectNear(outputs[layer], DenseAttention(cases[static_cast<size_t>(layer)]), plain.kv_dtype, "among other layers");
  }
}

// Whatever the size of the recurrent state before a slab's first tile, which attention must not touch.
TEST_P(DeviceAttention, TilesComeAfterTheRecurrentState) {
  for (const int64_t d : {16, 64, 128}) {
    const AttentionCase c{.heads = 4, .kv_heads = 2, .head_dim = d, .rotary = d, .pinned = 3, .length = 260};
    const KvShape plain = c.Shape(200);
    KvShape behind = plain;
    behind.state = {.layers = 1, .boundary_bytes = 832, .tail_row_bytes = 64, .slots = 3};
    ASSERT_NE(behind.state.bytes() % 1024, 0);
    const auto bytes = static_cast<size_t>(behind.slab_bytes());
    const std::vector<std::byte> noise(bytes, std::byte{0xff});
    const Buffer slab = std::move(backend_->Allocate(bytes).value()),
                 other = std::move(backend_->Allocate(bytes).value());
    for (const Buffer* buffer : {&slab, &other}) backend_->CopyToDevice(buffer->data(), noise.data(), bytes);
    for (int64_t done = 0, rows = 0; done < c.length; done += rows) {
      rows = done < 200 ? 200 : done % 20 < 15 ? 1 : 5;
      EXPECT_EQ(Step(*backend_, {c}, behind, {slab.data()}, done, rows),
                Step(*backend_, {c}, plain, {other.data()}, done, rows))
          << d << " dimensions, " << rows << " rows at " << done;
    }
    std::vector<std::byte> state(static_cast<size_t>(behind.state.bytes()));
    backend_->CopyToHost(state.data(), slab.data(), state.size());
    backend_->Synchronize();
    EXPECT_TRUE(std::ranges::all_of(state, [](std::byte b) { return b == std::byte{0xff}; }));
  }
}

TEST_P(DeviceAttention, ManySequencesInAStep) {
  std::vector<AttentionCase> cases;
  for (int64_t i = 0; i < 7; ++i) {
    cases.push_back({.heads = 8,
                     .kv_heads = 2,
                     .head_dim = 128,
                     .rotary = 128,
                     .pairs = RopePairs::kHalves,
                     .pinned = i,
                     .memory = 40,
                     .length = 10 + 25 * i,
                     .ring_rows = 80,
                     .seed = static_cast<uint32_t>(i + 1)});
  }
  const KvShape shape{.layers = 1, .kv_heads = 2, .head_dim = 128, .pinned_tiles = 1, .ring_tiles = 5};
  // 32: steps in which some sequences have a chunk and others a few rows.
  for (const int64_t rows : {1, 4, 32}) {
    std::vector<Buffer> slabs;
    std::vector<const void*> addresses;
    for (size_t i = 0; i < cases.size(); ++i) {
      slabs.push_back(std::move(backend_->Allocate(static_cast<size_t>(shape.slab_bytes())).value()));
      addresses.push_back(slabs.back().data());
    }
    std::vector<std::vector<float>> outputs(cases.size());
    for (int64_t done = 0; done < 160; done += rows) {
      const auto step = Step(*backend_, cases, shape, addresses, done, rows);
      for (size_t i = 0; i < cases.size(); ++i) outputs[i].insert(outputs[i].end(), step[i].begin(), step[i].end());
    }
    for (size_t i = 0; i < cases.size(); ++i) {
      ExpectNear(outputs[i], DenseAttention(cases[i]), DType::kF16, "among others");
    }
  }
}

}  // namespace
}  // namespace ringside::testing
