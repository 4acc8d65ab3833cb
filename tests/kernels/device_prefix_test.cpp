// Attention with a shared prefix on every kind of device: rows of a group, which read it once, against the same rows
// without a group. The sizes are those above which a GPU uses its kernel for prefixes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/kernels/devices.h"

namespace ringside::testing {
namespace {

struct PrefixCase {
  int64_t heads, kv_heads, head_dim, pinned, shared, sequences;
  DType cache;
};

class DevicePrefix : public DeviceTest, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override { Use(GetParam()); }

  /// Sequences behind `shared` equal rows; the own rows of sequence i are those of its seed.
  void Fill(const PrefixCase& p) {
    for (int64_t i = 0; i < p.sequences; ++i) {
      slabs_.push_back(std::move(backend_->Allocate(SlabBytes()).value()));
    }
    for (int64_t t = 0; t < p.shared; t += 64) {
      AttentionSegment segment{.rows = std::min<int64_t>(64, p.shared - t), .position = t, .slab = slabs_[0].data()};
      Step({segment}, 0);
    }
    for (size_t i = 1; i < slabs_.size(); ++i) {
      backend_->CopyOnDevice(slabs_[i].data(), slabs_[0].data(), SlabBytes());
    }
    for (int64_t i = 0; i < p.sequences; ++i) {
      AttentionSegment segment{.rows = OwnRows(i), .position = p.shared, .slab = slabs_[static_cast<size_t>(i)].data()};
      Step({segment}, static_cast<uint32_t>(i + 1));
    }
  }
  /// Results of a step with one row of each sequence, or two of every fifth.
  std::vector<float> LastStep(const PrefixCase& p, bool grouped, bool drafts) {
    std::vector<AttentionSegment> segments;
    for (int64_t i = 0; i < p.sequences; ++i) {
      segments.push_back({.rows = drafts && i % 5 == 0 ? 2 : 1,
                          .position = p.shared + OwnRows(i),
                          .slab = slabs_[static_cast<size_t>(i)].data()});
      if (!grouped) continue;
      segments.back().prefix = slabs_.back().data();
      segments.back().prefix_end = p.shared;
    }
    return Step(segments, 1000);
  }
  size_t SlabBytes() const { return static_cast<size_t>(shape_.slab_bytes()); }
  static int64_t OwnRows(int64_t i) { return 1 + i % 7 * 23; }

  std::vector<float> Step(std::vector<AttentionSegment> segments, uint32_t seed) {
    int64_t rows = 0;
    std::vector<float> angles[4];
    std::vector<std::vector<int64_t>> first_live(segments.size());
    for (size_t i = 0; i < segments.size(); ++i) {
      AttentionSegment& s = segments[i];
      s.first_row = rows, s.pinned = c_.pinned;
      for (int64_t r = 0; r < s.rows; ++r) first_live[i].push_back(c_.FirstLive(s.position + r));
      s.first_live = first_live[i].data();
      const AngleRows own(c_, s.position, s.rows);
      const std::vector<float>* from[] = {&own.own_cos, &own.own_sin, &own.pinned_cos, &own.pinned_sin};
      for (size_t k = 0; k < 4; ++k) angles[k].insert(angles[k].end(), from[k]->begin(), from[k]->end());
      rows += s.rows;
    }
    const int64_t columns = c_.heads * c_.head_dim;
    const DeviceMatrix in(*backend_, type_, rows, c_.width(), RandomRounded(rows * c_.width(), seed));
    DeviceMatrix out(*backend_, type_, rows, columns, std::vector<float>(static_cast<size_t>(rows * columns), NAN));
    backend_->Attention({.qkv = in.tensor(),
                         .out = out.tensor(),
                         .layer = 0,
                         .shape = shape_,
                         .heads = c_.heads,
                         .rotary = c_.rotary,
                         .pairs = c_.pairs,
                         .angles = {angles[0].data(), angles[1].data(), angles[2].data(), angles[3].data()},
                         .scores = c_.scores(),
                         .segments = segments});
    return out.Get();
  }

  AttentionCase c_;
  KvShape shape_;
  std::vector<Buffer> slabs_;
};
INSTANTIATE_TEST_SUITE_P(All, DevicePrefix, ::testing::ValuesIn(DeviceNames()),
                         [](const auto& info) { return info.param; });

TEST_P(DevicePrefix, GroupsEqualRowsAlone) {
  const PrefixCase cases[] = {
      {32, 8, 128, 5, 1000, 9, DType::kBF16},     // 4 heads share keys
      {32, 8, 128, 0, 777, 36, DType::kF16},      // more queries than a block takes; the last keys are the rows' own
      {24, 8, 64, 300, 1040, 15, DType::kF16},    // 3 heads: a warp has 5 rows
      {8, 8, 96, 17, 1000, 12, DType::kBF16},     // every head has its keys
      {16, 4, 80, 1, 2000, 22, DType::kF8E4M3},   // 8 bits
      {16, 2, 256, 33, 1000, 15, DType::kBF16},   // 8 heads share keys
      {32, 8, 128, 1000, 1000, 9, DType::kBF16},  // the prefix is pinned
  };
  for (const PrefixCase& p : cases) {
    const int64_t length = p.shared + 200;
    // Rows of the last case have evicted others.
    c_ = {.heads = p.heads,
          .kv_heads = p.kv_heads,
          .head_dim = p.head_dim,
          .rotary = p.head_dim,
          .pairs = RopePairs::kHalves,
          .kv_dtype = p.cache,
          .pinned = p.pinned,
          .memory = p.pinned == p.shared ? 50 : length,
          .length = length,
          .ring_rows = (length + 64 + 15) / 16 * 16};
    shape_ = c_.Shape(64);
    slabs_.clear();
    Fill(p);
    for (const bool drafts : {false, true}) {
      const std::vector<float> want = LastStep(p, false, drafts), got = LastStep(p, true, drafts);
      if (HasFixedOrder(GetParam())) {
        EXPECT_EQ(got, want);
        continue;
      }
      ASSERT_EQ(got.size(), want.size());
      double error = 0, size = 0;
      for (size_t i = 0; i < got.size(); ++i) error += std::pow(got[i] - want[i], 2), size += want[i] * want[i];
      EXPECT_LT(std::sqrt(error / size), 2 * Rounding(type_)) << p.head_dim << " dimensions, " << p.pinned << " pinned";
    }
  }
}

}  // namespace
}  // namespace ringside::testing
