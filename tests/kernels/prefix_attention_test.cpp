// Attention of sequences with a shared prefix: a group reads the prefix from one slab, and every result has the bits of
// a sequence alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/prefix_groups.h"
#include "tests/kernels/reference.h"

namespace ringside::testing {
namespace {

constexpr int64_t kSequences = 5;

/// Sequences with `shared` equal rows, then rows of their own.
class SharedRows {
 public:
  SharedRows(Backend& backend, const AttentionCase& c, int64_t shared) : backend_(backend), c_(c), shared_(shared) {
    for (int64_t i = 0; i < kSequences; ++i) {
      AttentionCase own = c;
      own.seed = static_cast<uint32_t>(100 + i);
      inputs_.push_back(own.Qkv());
      const std::vector<float> common = c.Qkv();
      std::copy_n(common.begin(), shared * c.width(), inputs_.back().begin());
      slabs_.push_back(std::move(backend.Allocate(static_cast<size_t>(shape_.slab_bytes())).value()));
      for (int64_t t = 0; t < Next(i); t += 64)
        Step({{.rows = std::min<int64_t>(64, Next(i) - t), .position = t}}, {i});
    }
  }

  /// One step of all sequences, of one row or three. `grouped`: the rows of the prefix are read from the last slab, and
  /// whole key blocks in the other slabs hold NaN.
  std::vector<float> LastStep(bool grouped) {
    std::vector<AttentionSegment> segments;
    std::vector<int64_t> sequences(kSequences);
    std::iota(sequences.begin(), sequences.end(), 0);
    for (const int64_t i : sequences) {
      segments.push_back({.rows = i % 3 == 1 ? 3 : 1, .position = Next(i)});
      if (!grouped) continue;
      segments.back().prefix = slabs_.back().data();
      segments.back().prefix_end = shared_;
      if (i + 1 < kSequences) Poison(slabs_[static_cast<size_t>(i)].data());
    }
    return Step(segments, sequences);
  }

 private:
  int64_t Next(int64_t i) const { return shared_ + i * 37; }
  void Poison(void* slab) const {
    const int64_t blocks = (shared_ - c_.pinned) / 256, tiles = KvShape::PinnedTiles(c_.pinned) + 16 * blocks;
    std::memset(slab, 0xff, static_cast<size_t>(shape_.TileBegin(tiles)));
  }
  std::vector<float> Step(std::vector<AttentionSegment> segments, const std::vector<int64_t>& sequences) {
    std::vector<float> qkv, own_cos, own_sin;
    std::vector<int64_t> first_live(16 * 64, c_.pinned);
    for (size_t i = 0; i < segments.size(); ++i) {
      AttentionSegment& s = segments[i];
      const auto& input = inputs_[static_cast<size_t>(sequences[i])];
      s.first_row = static_cast<int64_t>(qkv.size()) / c_.width();
      s.pinned = c_.pinned;
      s.first_live = first_live.data();
      s.slab = slabs_[static_cast<size_t>(sequences[i])].data();
      qkv.insert(qkv.end(), input.begin() + s.position * c_.width(),
                 input.begin() + (s.position + s.rows) * c_.width());
      const AngleRows angles(c_, s.position, s.rows);
      own_cos.insert(own_cos.end(), angles.own_cos.begin(), angles.own_cos.end());
      own_sin.insert(own_sin.end(), angles.own_sin.begin(), angles.own_sin.end());
    }
    const int64_t rows = static_cast<int64_t>(qkv.size()) / c_.width(), outputs = c_.heads * c_.value_dim();
    std::vector<float> out(static_cast<size_t>(rows * outputs));
    backend_.Attention({.qkv = AsTensor(qkv, rows, c_.width()),
                        .out = AsTensor(out, rows, outputs),
                        .layer = 0,
                        .shape = shape_,
                        .heads = c_.heads,
                        .rotary = c_.rotary,
                        .first_rotary = c_.first_rotary(),
                        .pairs = c_.pairs,
                        .angles = {own_cos.data(), own_sin.data(), own_cos.data(), own_sin.data()},
                        .scores = c_.scores(),
                        .segments = segments});
    return out;
  }

  Backend& backend_;
  const AttentionCase c_;
  const int64_t shared_;
  const KvShape shape_ = c_.Shape(64);
  std::vector<std::vector<float>> inputs_;
  std::vector<Buffer> slabs_;
};

AttentionCase CaseOf(int64_t pinned, int64_t shared) {
  const int64_t length = shared + kSequences * 37 + 8;
  return {
      .heads = 6, .kv_heads = 2, .head_dim = 40, .rotary = 36, .pinned = pinned, .memory = length, .length = length};
}

TEST(PrefixAttention, SameBitsAsEachSequenceAlone) {
  for (const std::string_view set : CpuInstructionSets()) {
    for (const int threads : {1, 3}) {
      if (threads == 1 && set != CpuInstructionSets().back()) continue;
      auto backend = std::move(*MakeCpuBackend({threads, std::string(set)}));
      for (const auto& [pinned, shared] : {std::pair<int64_t, int64_t>{0, 512}, {5, 700}, {300, 300}, {270, 1100}}) {
        if (set == "portable" && pinned != 5) continue;  // slow
        SharedRows rows(*backend, CaseOf(pinned, shared), shared);
        const std::vector<float> want = rows.LastStep(false);
        EXPECT_EQ(rows.LastStep(true), want) << set << ", " << threads << " threads, " << pinned << " pinned";
      }
    }
  }
}

TEST(PrefixAttention, SameBitsWithScoreModifiersAndLatentKeys) {
  auto backend = std::move(*MakeCpuBackend({2, ""}));
  AttentionCase latent{.heads = 24, .kv_heads = 1, .head_dim = 48, .rotary = 16, .pinned = 3};
  latent.latent_dim = 32;
  AttentionCase modified = CaseOf(3, 600);
  modified.soft_cap = 2;
  modified.slopes = {0.1F, 0.2F, 0.3F, 0.4F, 0.5F, 0.6F};
  modified.sinks = {1, 2, 3, 4, 5, 6};
  latent.memory = latent.length = modified.length;
  for (const AttentionCase& c : {latent, modified}) {
    SharedRows rows(*backend, c, 600);
    const std::vector<float> want = rows.LastStep(false);
    EXPECT_EQ(rows.LastStep(true), want);
  }
}

TEST(PrefixAttention, LayersWithAWindowHaveNoGroups) {
  const int prefix = 0;
  std::vector<AttentionSegment> segments(3, AttentionSegment{.rows = 1, .position = 40, .pinned = 8});
  segments[0].prefix = segments[2].prefix = &prefix;
  segments[0].prefix_end = segments[2].prefix_end = 32;
  AttentionArgs args{.segments = segments};
  const std::vector<PrefixGroup> groups = PrefixGroupsOf(args);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].segments, (std::vector<size_t>{0, 2}));
  EXPECT_EQ(groups[0].end, 32);
  args.scores.window = 16;
  EXPECT_TRUE(PrefixGroupsOf(args).empty());
  args.scores.window = 0;
  segments[2].prefix_end = 33;
  EXPECT_TRUE(PrefixGroupsOf(args).empty()) << "two groups of one segment";
}

}  // namespace
}  // namespace ringside::testing
