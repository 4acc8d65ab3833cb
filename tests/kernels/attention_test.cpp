// Attention over the ring: against a dense reference in double, and bit for bit against itself for every chunking, ring
// size, thread count and instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "tests/kernels/reference.h"

namespace ringside::testing {
namespace {

double Tolerance(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return 2e-5;
    case DType::kF8E4M3:  // the reference rounds too; a key near a tie may be rounded differently
      return 2e-3;
    case DType::kF16:
      return 4e-3;
    default:
      return 3e-2;
  }
}

void ExpectNear(const std::vector<float>& got, const std::vector<double>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], tolerance) << i;
}

class AttentionOnEachSet : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, AttentionOnEachSet, ::testing::ValuesIn(InstructionSets()),
                         [](const auto& info) { return info.param; });

TEST_P(AttentionOnEachSet, MatchesDenseAttention) {
  auto backend = MakeBackend(GetParam(), 2);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3}) {
    for (const int64_t pinned : {0, 1, 4, 32}) {
      for (const int64_t length : {30, 60, 140}) {  // the ring wraps 0, 1 and 2.5 times
        AttentionCase c{.kv_dtype = dtype, .pinned = pinned, .memory = 48, .length = pinned + length};
        ExpectNear(RingAttention(*backend, c, 9), DenseAttention(c), Tolerance(dtype));
      }
    }
  }
}

TEST_P(AttentionOnEachSet, MatchesDenseAttentionForEveryHeadSize) {
  auto backend = MakeBackend(GetParam(), 2);
  for (const int64_t d : {2, 6, 8, 16, 24, 64, 80, 96, 128, 256}) {
    for (const RopePairs pairs : {RopePairs::kAdjacent, RopePairs::kHalves, RopePairs::kNone}) {
      for (const int64_t rotary : {d, (d / 2 + 1) / 2 * 2}) {
        AttentionCase c{.heads = 4,
                        .kv_heads = 2,
                        .head_dim = d,
                        .rotary = rotary,
                        .pairs = pairs,
                        .kv_dtype = DType::kF32,
                        .pinned = 3,
                        .memory = 20,
                        .length = 45};
        ExpectNear(RingAttention(*backend, c, 5), DenseAttention(c), Tolerance(c.kv_dtype));
      }
    }
  }
}

TEST_P(AttentionOnEachSet, MatchesDenseAttentionForEveryGrouping) {
  auto backend = MakeBackend(GetParam(), 2);
  for (const auto& [heads, kv_heads] :
       {std::pair<int64_t, int64_t>{1, 1}, {4, 4}, {6, 3}, {8, 2}, {5, 1}, {8, 1}, {17, 1}, {40, 2}}) {
    AttentionCase c{.heads = heads,
                    .kv_heads = kv_heads,
                    .kv_dtype = DType::kF32,
                    .pinned = 2,
                    .memory = 30,
                    .slack = 7,
                    .length = 50};
    ExpectNear(RingAttention(*backend, c, 50), DenseAttention(c), Tolerance(c.kv_dtype));
  }
}

// Every trait of kernels/score_traits.h, alone and combined, before and after the ring has wrapped.
std::vector<AttentionCase> TraitCases() {
  AttentionCase plain{.heads = 6,
                      .kv_heads = 2,
                      .head_dim = 24,
                      .rotary = 24,
                      .kv_dtype = DType::kF32,
                      .pinned = 5,
                      .memory = 290,
                      .slack = 13,
                      .length = 650};
  const std::vector<float> slopes = {0.5f, 0.25f, 0.125f, 0.0625f, 0.03125f, 0.015625f}, sinks = {-2, 0, 1, 2, 3, 4.5f};
  std::vector<AttentionCase> cases(9, plain);
  cases[0].soft_cap = 1.5f;
  cases[1].slopes = slopes;
  cases[2].sinks = sinks;
  cases[3].window = 3;
  cases[4].window = 280;
  cases[6].window = 50, cases[6].chunked = true;
  cases[7].window = 300, cases[7].chunked = true;
  cases[5].soft_cap = 2, cases[5].slopes = slopes, cases[5].sinks = sinks, cases[5].window = 200;
  cases[8].query_weights = RandomFloats(24, 5, 0.5f), cases[8].query_scales = RandomFloats(650, 6, 0.5f);
  return cases;
}

TEST_P(AttentionOnEachSet, ScoreTraitsMatchDenseAttention) {
  auto backend = MakeBackend(GetParam(), 2), portable = MakeBackend("portable", 1);
  for (const AttentionCase& c : TraitCases()) {
    const std::vector<float> got = RingAttention(*backend, c, 64);
    ExpectNear(got, DenseAttention(c), Tolerance(c.kv_dtype));
    EXPECT_EQ(RingAttention(*portable, c, 33), got);
    EXPECT_EQ(RingAttention(*backend, c, 1), got);
    EXPECT_EQ(RingAttention(*backend, c, 200, true), got) << "poisoned";
  }
}

// Ranges before, in and after the pinned rows, longer than a softmax block, than the window and than a layer's window.
TEST_P(AttentionOnEachSet, RowsOfARangeSeeEachOther) {
  auto backend = MakeBackend(GetParam(), 2), portable = MakeBackend("portable", 1);
  AttentionCase c{.heads = 4,
                  .kv_heads = 2,
                  .head_dim = 16,
                  .rotary = 16,
                  .kv_dtype = DType::kF32,
                  .pinned = 20,
                  .memory = 90,
                  .slack = 13,
                  .length = 480};
  c.mutual = {{3, 15}, {15, 20}, {20, 30}, {50, 51}, {60, 100}, {150, 430}, {440, 470}};
  for (const int64_t window : {0, 7}) {
    c.window = window;
    const std::vector<float> got = RingAttention(*backend, c, 64);
    ExpectNear(got, DenseAttention(c), Tolerance(c.kv_dtype));
    EXPECT_EQ(RingAttention(*portable, c, 33), got);
    EXPECT_EQ(RingAttention(*backend, c, 1), got);
    EXPECT_EQ(RingAttention(*backend, c, 200, true), got) << "poisoned";
    EXPECT_EQ(RingAttention(*backend, c, 64, false, 1024), got);
  }
}

// Long enough for several softmax blocks, including pinned ones.
TEST_P(AttentionOnEachSet, MatchesDenseAttentionOverSeveralBlocks) {
  auto backend = MakeBackend(GetParam(), 2);
  AttentionCase c{.heads = 2,
                  .kv_heads = 1,
                  .head_dim = 8,
                  .rotary = 8,
                  .kv_dtype = DType::kF32,
                  .pinned = 300,
                  .memory = 600,
                  .length = 1500};
  ExpectNear(RingAttention(*backend, c, 512), DenseAttention(c), Tolerance(c.kv_dtype));
}

AttentionCase LatentCase(int64_t rank, int64_t rotary, int64_t heads, DType dtype) {
  return {.heads = heads,
          .kv_heads = 1,
          .head_dim = rank + rotary,
          .rotary = rotary,
          .kv_dtype = dtype,
          .pinned = 5,
          .memory = 60,
          .slack = 7,
          .length = 150,
          .latent_dim = rank};
}

// Multi-head latent attention: values are a part of the keys.
TEST_P(AttentionOnEachSet, LatentValuesMatchDenseAttention) {
  auto backend = MakeBackend(GetParam(), 2), one = MakeBackend(GetParam(), 1), portable = MakeBackend("portable", 1);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3}) {
    for (const auto& [rank, rotary] : {std::pair<int64_t, int64_t>{16, 8}, {48, 6}, {512, 64}}) {
      const AttentionCase c = LatentCase(rank, rotary, 14, dtype);
      const std::vector<float> got = RingAttention(*backend, c, 16);
      ExpectNear(got, DenseAttention(c), Tolerance(dtype));
      EXPECT_EQ(RingAttention(*one, c, 1), got);
      EXPECT_EQ(RingAttention(*backend, c, 200, true), got) << "poisoned";
      if (rank == 512) continue;  // portable code is slow
      EXPECT_EQ(RingAttention(*portable, c, 33), got);
    }
  }
}

// Over several key blocks, which threads divide.
TEST_P(AttentionOnEachSet, LatentAttentionHasTheSameBitsForEveryThreadCount) {
  auto one = MakeBackend(GetParam(), 1), three = MakeBackend(GetParam(), 3);
  AttentionCase c = LatentCase(32, 8, 20, DType::kF16);
  c.memory = 700, c.length = 900;
  const std::vector<float> want = RingAttention(*one, c, 64);
  EXPECT_EQ(RingAttention(*three, c, 1), want);
  EXPECT_EQ(RingAttention(*three, c, 64, true, 1024), want);
}

AttentionCase BitCase(int64_t pinned, double wraps, bool grouped) {
  AttentionCase c{.heads = grouped ? 6 : 2,
                  .kv_heads = 2,
                  .head_dim = 24,
                  .rotary = 24,
                  .pairs = RopePairs::kHalves,
                  .pinned = pinned,
                  .memory = 300,
                  .slack = 13};
  c.length = pinned + 290 + static_cast<int64_t>(300 * wraps);
  return c;
}

TEST_P(AttentionOnEachSet, SameBitsForEveryChunkRingAndThreadCount) {
  const bool slow = GetParam() == "portable";  // only one case: the rest follows from SameBitsAsPortable
  auto one = MakeBackend(GetParam(), 1), two = MakeBackend(GetParam(), 2), three = MakeBackend(GetParam(), 3);
  for (const int64_t pinned : {0, 1, 4, 32}) {
    for (const double wraps : {0.0, 1.0, 2.5}) {
      if (slow && (pinned != 4 || wraps != 1.0)) continue;
      const AttentionCase c = BitCase(pinned, wraps, pinned != 1);
      const std::vector<float> want = RingAttention(*one, c, 1);
      for (const int64_t chunk : {1, 7, 64, 512}) {
        EXPECT_EQ(RingAttention(*two, c, chunk), want) << pinned << " pinned, chunk " << chunk << ", wraps " << wraps;
        EXPECT_EQ(RingAttention(*three, c, chunk, true), want) << "poisoned; " << pinned << " pinned, chunk " << chunk;
      }
      EXPECT_EQ(RingAttention(*one, c, 7, true, 336), want) << "another ring size";
      EXPECT_EQ(RingAttention(*two, c, 64, true, 1024), want) << "another ring size";
    }
  }
}

TEST_P(AttentionOnEachSet, SameBitsAsPortable) {
  auto backend = MakeBackend(GetParam(), 2), portable = MakeBackend("portable", 2);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3}) {
    for (const RopePairs pairs : {RopePairs::kAdjacent, RopePairs::kHalves}) {
      AttentionCase c{.heads = 6,
                      .kv_heads = 2,
                      .head_dim = 40,
                      .rotary = 36,
                      .pairs = pairs,
                      .kv_dtype = dtype,
                      .pinned = 5,
                      .memory = 270,
                      .length = 330};
      EXPECT_EQ(RingAttention(*backend, c, 64), RingAttention(*portable, c, 33));
    }
  }
}

// Rows of several sequences in one step give the same results as alone.
TEST_P(AttentionOnEachSet, ResultIsIndependentOfTheBatch) {
  auto backend = MakeBackend(GetParam(), 2);
  std::vector<AttentionCase> cases;
  for (int64_t i = 0; i < 5; ++i) {
    cases.push_back(
        {.pinned = i, .memory = 40, .length = 10 + 25 * i, .ring_rows = 64, .seed = static_cast<uint32_t>(i + 1)});
  }
  const KvShape shape{.layers = 1, .kv_heads = 1, .head_dim = 16, .pinned_tiles = 1, .ring_tiles = 4};
  std::vector<Buffer> slabs;
  std::vector<std::vector<float>> inputs, outputs;
  for (const AttentionCase& c : cases) {
    slabs.push_back(std::move(backend->Allocate(static_cast<size_t>(shape.slab_bytes())).value()));
    inputs.push_back(c.Qkv());
    outputs.emplace_back();
  }
  for (int64_t done = 0; done < 110; done += 4) {
    std::vector<AttentionSegment> segments;
    std::vector<std::vector<int64_t>> first_live;
    first_live.reserve(cases.size());
    std::vector<float> qkv, own_cos, own_sin, pinned_cos, pinned_sin;
    for (size_t i = 0; i < cases.size(); ++i) {
      const AttentionCase& c = cases[i];
      const int64_t rows = std::clamp<int64_t>(c.length - done, 0, 4);
      if (rows == 0) continue;
      first_live.emplace_back();
      for (int64_t r = 0; r < rows; ++r) first_live.back().push_back(c.FirstLive(done + r));
      segments.push_back({static_cast<int64_t>(qkv.size()) / c.width(), rows, done, c.pinned, first_live.back().data(),
                          slabs[i].data()});
      qkv.insert(qkv.end(), inputs[i].begin() + done * c.width(), inputs[i].begin() + (done + rows) * c.width());
      const AngleRows angles(c, done, rows);
      own_cos.insert(own_cos.end(), angles.own_cos.begin(), angles.own_cos.end());
      own_sin.insert(own_sin.end(), angles.own_sin.begin(), angles.own_sin.end());
      pinned_cos.insert(pinned_cos.end(), angles.pinned_cos.begin(), angles.pinned_cos.end());
      pinned_sin.insert(pinned_sin.end(), angles.pinned_sin.begin(), angles.pinned_sin.end());
    }
    if (segments.empty()) break;
    const AttentionCase& c = cases[0];
    const int64_t rows = static_cast<int64_t>(qkv.size()) / c.width();
    std::vector<float> out(static_cast<size_t>(rows * 48));
    backend->Attention({.qkv = AsTensor(qkv, rows, c.width()),
                        .out = AsTensor(out, rows, 48),
                        .layer = 0,
                        .shape = shape,
                        .heads = 3,
                        .rotary = 16,
                        .pairs = c.pairs,
                        .angles = {own_cos.data(), own_sin.data(), pinned_cos.data(), pinned_sin.data()},
                        .scores = {.scale = c.scale()},
                        .segments = segments});
    for (const AttentionSegment& s : segments) {
      for (size_t i = 0; i < slabs.size(); ++i) {
        if (slabs[i].data() != s.slab) continue;
        outputs[i].insert(outputs[i].end(), out.begin() + s.first_row * 48, out.begin() + (s.first_row + s.rows) * 48);
      }
    }
  }
  for (size_t i = 0; i < cases.size(); ++i)
    EXPECT_EQ(outputs[i], RingAttention(*backend, cases[i], 17, false, 64)) << i;
}

// A row's result must not depend on later rows, even if one overflows.
TEST_P(AttentionOnEachSet, AttentionIsCausal) {
  auto backend = MakeBackend(GetParam(), 1);
  AttentionCase c{.pinned = 1, .memory = 64, .length = 40};
  const KvShape shape = c.Shape(40);
  const auto run = [&](float last_value) {
    Buffer slab = std::move(backend->Allocate(static_cast<size_t>(shape.slab_bytes())).value());
    std::vector<float> qkv = c.Qkv(), out(40 * 48);
    for (int64_t i = 0; i < c.width(); ++i) qkv[static_cast<size_t>(39 * c.width() + i)] = last_value;
    const AngleRows angles(c, 0, 40);
    std::vector<int64_t> first_live;
    for (int64_t t = 0; t < 40; ++t) first_live.push_back(c.FirstLive(t));
    const AttentionSegment segment{0, 40, 0, 1, first_live.data(), slab.data()};
    backend->Attention({.qkv = AsTensor(qkv, 40, c.width()),
                        .out = AsTensor(out, 40, 48),
                        .layer = 0,
                        .shape = shape,
                        .heads = 3,
                        .rotary = 16,
                        .pairs = c.pairs,
                        .angles = angles.angles(),
                        .scores = {.scale = c.scale()},
                        .segments = {&segment, 1}});
    return std::vector<float>(out.begin(), out.begin() + 39 * 48);
  };
  EXPECT_EQ(run(1.0f), run(1e30f));
}

// The layers of a slab are independent.
TEST_P(AttentionOnEachSet, LayersAreIndependent) {
  auto backend = MakeBackend(GetParam(), 1);
  AttentionCase a{.pinned = 2, .memory = 30, .length = 25, .seed = 3}, b = a;
  b.seed = 4;
  const KvShape shape = a.Shape(25, 2);
  Buffer slab = std::move(backend->Allocate(static_cast<size_t>(shape.slab_bytes())).value());
  const AngleRows angles(a, 0, 25);
  std::vector<int64_t> first_live(25, 2);
  const AttentionSegment segment{0, 25, 0, 2, first_live.data(), slab.data()};
  for (const int64_t layer : {0, 1}) {
    std::vector<float> qkv = (layer == 0 ? a : b).Qkv(), out(25 * 48);
    backend->Attention({.qkv = AsTensor(qkv, 25, a.width()),
                        .out = AsTensor(out, 25, 48),
                        .layer = layer,
                        .shape = shape,
                        .heads = 3,
                        .rotary = 16,
                        .pairs = a.pairs,
                        .angles = angles.angles(),
                        .scores = {.scale = a.scale()},
                        .segments = {&segment, 1}});
    EXPECT_EQ(out, RingAttention(*backend, layer == 0 ? a : b, 25));
  }
}

// A sequence whose last rows are in a branch slab, before and after the ring has wrapped, from every tile offset on,
// and until the branch's ring has wrapped, too: the bits equal those of a single slab.
TEST_P(AttentionOnEachSet, BranchesGiveTheSameBits) {
  auto backend = MakeBackend(GetParam(), 2);
  for (const int64_t begins : {5, 21, 36, 300, 317, 700}) {
    const int64_t rows = begins == 36 || begins == 317 ? 400 : 40, kPinned = 5;
    const AttentionCase c{.pinned = kPinned, .memory = 300, .slack = 13, .length = begins + rows, .ring_rows = 352};
    const std::vector<float> whole = RingAttention(*backend, c, 16), qkv = c.Qkv();
    const int64_t outputs = std::ssize(whole) / c.length;
    const KvShape shape = c.Shape(16);
    std::vector<Buffer> slabs;
    for (int i = 0; i < 2; ++i) {
      slabs.push_back(std::move(backend->Allocate(static_cast<size_t>(shape.slab_bytes())).value()));
      std::memset(slabs.back().data(), 0xff, static_cast<size_t>(shape.slab_bytes()));
    }
    const auto run = [&](AttentionSegment segment) {
      std::vector<int64_t> first_live;
      for (int64_t r = 0; r < segment.rows; ++r) first_live.push_back(c.FirstLive(segment.position + r));
      segment.pinned = kPinned;
      segment.first_live = first_live.data();
      std::vector<float> in(qkv.begin() + segment.position * c.width(),
                            qkv.begin() + (segment.position + segment.rows) * c.width());
      std::vector<float> out(static_cast<size_t>(segment.rows * outputs));
      const AngleRows angles(c, segment.position, segment.rows);
      backend->Attention({.qkv = AsTensor(in, segment.rows, c.width()),
                          .out = AsTensor(out, segment.rows, outputs),
                          .layer = 0,
                          .shape = shape,
                          .heads = c.heads,
                          .rotary = c.rotary,
                          .pairs = c.pairs,
                          .angles = angles.angles(),
                          .scores = {.scale = c.scale()},
                          .segments = {&segment, 1}});
      return out;
    };
    for (int64_t at = 0; at < begins; at += 16) {
      run({.rows = std::min<int64_t>(16, begins - at), .position = at, .slab = slabs[0].data()});
    }
    const int64_t branch = begins - (begins - kPinned) % KvShape::kTile;
    const auto* begun = static_cast<const std::byte*>(slabs[0].data()) +
                        shape.Slot(branch, kPinned) / KvShape::kTile * shape.tile_bytes();
    backend->CopyOnDevice(slabs[1].data(), begun, static_cast<size_t>(shape.tile_bytes()));
    std::vector<float> got;
    for (int64_t at = begins; at < c.length; at += 8) {
      const std::vector<float> next =
          run({.rows = 8, .position = at, .slab = slabs[1].data(), .history = slabs[0].data(), .branch = branch});
      got.insert(got.end(), next.begin(), next.end());
    }
    EXPECT_EQ(got, std::vector<float>(whole.begin() + begins * outputs, whole.end())) << begins;
  }
}

}  // namespace
}  // namespace ringside::testing
