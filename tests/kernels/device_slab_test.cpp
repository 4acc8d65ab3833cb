// Slab copies to the host and back on every available device: exactly the bytes of the runs, in the order of the calls,
// and no attention before its layer has arrived, nor a recurrent mixer before its state.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <random>

#include "tests/kernels/devices.h"

namespace ringside::testing {
namespace {

class SlabTest : public DeviceTest {
 protected:
  static std::vector<std::byte> Noise(size_t bytes, uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<std::byte> out(bytes);
    for (auto& b : out) b = static_cast<std::byte>(random() & 0x3b);  // as float16: small and finite
    return out;
  }
  std::vector<std::byte> Read(const Buffer& buffer) {
    std::vector<std::byte> out(buffer.bytes());
    backend_->CopyToHost(out.data(), buffer.data(), out.size());
    backend_->Synchronize();
    return out;
  }
  /// All tiles of the slab, in two runs.
  static std::vector<SlabRun> WholeSlab(const KvShape& shape, std::byte* host) {
    const int64_t first = 2 * shape.tile_bytes();
    return {{0, first, host}, {first, shape.slab_bytes() - first, host + first}};
  }
};

class DeviceSlab : public SlabTest, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override { Use(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(All, DeviceSlab, ::testing::ValuesIn(DeviceNames()),
                         [](const auto& info) { return info.param; });

TEST_P(DeviceSlab, SharedPagesAreOneMemory) {
  const int64_t page = backend_->page_bytes(int64_t{1} << 30);
  const auto bytes = static_cast<size_t>(3 * page), one = static_cast<size_t>(page);
  Buffer first = std::move(backend_->Reserve(bytes).value()), second = std::move(backend_->Reserve(bytes).value());
  auto *from = static_cast<std::byte*>(first.data()), *to = static_cast<std::byte*>(second.data());
  ASSERT_TRUE(backend_->Commit(from, bytes).ok());
  const std::vector<std::byte> want = Noise(bytes, 1), other = Noise(one, 2);
  backend_->CopyToDevice(from, want.data(), bytes);
  ASSERT_TRUE(backend_->Share(to, from, 2 * one).ok());
  ASSERT_TRUE(backend_->Commit(to + 2 * one, one).ok());
  backend_->CopyOnDevice(to + 2 * one, from + 2 * one, one);
  EXPECT_EQ(Read(second), want);
  // The second leaves one page and gets a new one.
  backend_->Unshare(to + one, one);
  ASSERT_TRUE(backend_->Commit(to + one, one).ok());
  backend_->CopyToDevice(to + one, other.data(), one);
  EXPECT_EQ(Read(first), want);
  // The first one leaves.
  backend_->Unshare(from, one);
  backend_->Decommit(from + one, 2 * one);
  std::vector<std::byte> expected = want;
  std::copy(other.begin(), other.end(), expected.begin() + page);
  EXPECT_EQ(Read(second), expected);
  backend_->Decommit(to, bytes);
  ASSERT_TRUE(backend_->Commit(from, bytes).ok());
  backend_->CopyToDevice(from, want.data(), bytes);
  EXPECT_EQ(Read(first), want);
}

TEST_P(DeviceSlab, CopiesExactlyTheGivenRuns) {
  const KvShape shape{5, 2, 64, DType::kF16, 1, 9};
  const auto bytes = static_cast<size_t>(shape.slab_bytes());
  Buffer slab = std::move(backend_->Allocate(bytes).value());
  const std::vector<std::byte> want = Noise(bytes, 1);
  backend_->CopyToDevice(slab.data(), want.data(), bytes);  // the save sees it without a Synchronize
  const int64_t tile = shape.tile_bytes();
  // Tiles 3 and 4, and tile 8.
  std::vector<std::byte> host(static_cast<size_t>(3 * tile), std::byte{0xee});
  const std::vector<SlabRun> runs = {{3 * tile, 2 * tile, host.data()}, {8 * tile, tile, host.data() + 2 * tile}};
  backend_->WaitForCopy(backend_->SaveSlab(shape, slab.data(), runs));
  EXPECT_EQ(std::memcmp(host.data(), want.data() + 3 * tile, static_cast<size_t>(2 * tile)), 0);
  EXPECT_EQ(std::memcmp(host.data() + 2 * tile, want.data() + 8 * tile, static_cast<size_t>(tile)), 0);
  Buffer other = std::move(backend_->Allocate(bytes).value());
  const CopyTicket ticket = backend_->LoadSlab(shape, other.data(), runs);
  while (!backend_->CopyDone(ticket)) {
  }
  std::vector<std::byte> expected(bytes);
  for (const int64_t t : {3, 4, 8}) {
    std::memcpy(expected.data() + t * tile, want.data() + t * tile, static_cast<size_t>(tile));
  }
  EXPECT_EQ(Read(other), expected);
  EXPECT_TRUE(backend_->CopyDone(0));
  EXPECT_TRUE(backend_->status().ok());
}

// Parts of the recurrent state, between and after runs of tiles.
TEST_P(DeviceSlab, CopiesRunsOfTheRecurrentState) {
  KvShape shape{5, 2, 64, DType::kF16, 1, 9};
  shape.state = {.layers = 3, .boundary_bytes = 1088, .tail_row_bytes = 192, .slots = 3};
  const StateShape& state = shape.state;
  const auto bytes = static_cast<size_t>(shape.slab_bytes());
  const Buffer slab = std::move(backend_->Allocate(bytes).value()),
               other = std::move(backend_->Allocate(bytes).value()),
               third = std::move(backend_->Allocate(bytes).value());
  const std::vector<std::byte> want = Noise(bytes, 1);
  backend_->CopyToDevice(slab.data(), want.data(), bytes);
  // Slot 1, part of a layer's tail, and tiles 3 and 4.
  std::vector<SlabRun> runs = {{state.BoundaryOffset(1, 0), state.slot_bytes()},
                               {shape.TileBegin(3), 2 * shape.tile_bytes()},
                               {state.TailOffset(1, 0), 7 * state.tail_row_bytes}};
  std::vector<std::byte> host(bytes, std::byte{0xee}), expected(bytes);
  for (SlabRun& run : runs) {
    run.host = host.data() + run.offset;
    std::copy_n(want.begin() + run.offset, run.bytes, expected.begin() + run.offset);
  }
  backend_->WaitForCopy(backend_->SaveSlab(shape, slab.data(), runs));
  std::vector<std::byte> saved(bytes, std::byte{0xee});
  for (const SlabRun& run : runs) std::copy_n(want.begin() + run.offset, run.bytes, saved.begin() + run.offset);
  EXPECT_EQ(host, saved);
  backend_->WaitForCopy(backend_->LoadSlab(shape, other.data(), runs));
  EXPECT_EQ(Read(other), expected);
  // The beginning of a slab, up to a tile.
  const auto begin = static_cast<size_t>(shape.TileBegin(2));
  backend_->CopyOnDevice(third.data(), slab.data(), begin);
  const std::vector<std::byte> copied = Read(third);
  EXPECT_TRUE(std::equal(copied.begin(), copied.begin() + static_cast<std::ptrdiff_t>(begin), want.begin()));
  EXPECT_TRUE(std::all_of(copied.begin() + static_cast<std::ptrdiff_t>(begin), copied.end(),
                          [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_TRUE(backend_->status().ok());
}

// A short convolution reads the window of its boundary and its tail.
TEST_P(DeviceSlab, RecurrencesWaitForTheirState) {
  const RecurrenceShape sizes{.mixer = Mixer::kConvolution, .kernel = 4, .width = 4096};
  KvShape shape{1, 1, 64, DType::kF16, 1, 9};
  shape.state = sizes.StateOf(24);
  shape.state.slots = 4;
  const auto bytes = static_cast<size_t>(shape.slab_bytes()), state = static_cast<size_t>(shape.state.bytes());
  const Buffer slab = std::move(backend_->Allocate(bytes).value()),
               still = std::move(backend_->Allocate(bytes).value());
  std::mt19937 random(3);
  static std::vector<std::byte> first(state), saved(state);  // pinned memory is never freed
  std::vector<float> values(state / sizeof(float)), others(values.size());
  for (float& value : values) value = static_cast<float>(random() % 64) / 64 - 0.5f;
  for (float& value : others) value = static_cast<float>(random() % 64) / 64 - 0.5f;
  std::memcpy(first.data(), values.data(), state);
  backend_->PinHost(first.data(), state);
  backend_->PinHost(saved.data(), state);
  std::vector<float> weights(static_cast<size_t>(4 * sizes.width), 0.25f), x(static_cast<size_t>(sizes.width), 1.0f);
  const DeviceFloats convolution(*backend_, weights);
  const auto recur = [&](int64_t layer, int64_t position, const Buffer& in) {
    const DeviceMatrix input(*backend_, DType::kF32, 1, sizes.width, x),
        out(*backend_, DType::kF32, 1, sizes.width, std::vector<float>(x.size(), NAN));
    const AttentionSegment segment{.rows = 1, .position = position, .slab = in.data(), .state_slot = 2};
    backend_->Recur({.sizes = sizes,
                     .weights = {.convolution = convolution.data()},
                     .x = input.tensor(),
                     .out = out.tensor(),
                     .layer = layer,
                     .shape = shape,
                     .segments = {&segment, 1}});
    return out.Get();
  };
  for (const int64_t layer : {0, 7, 23}) {
    for (const int64_t position : {64 * 5, 64 * 5 + 2}) {  // reads the window; the window and the tail
      backend_->CopyToDevice(still.data(), first.data(), state);
      const std::vector<float> want = recur(layer, position, still);
      backend_->CopyToDevice(slab.data(), others.data(), state);
      const SlabRun run{0, static_cast<int64_t>(state), first.data()}, back{0, run.bytes, saved.data()};
      const CopyTicket load = backend_->LoadSlab(shape, slab.data(), {&run, 1});
      EXPECT_EQ(recur(layer, position, slab), want) << "layer " << layer << ", position " << position;
      const CopyTicket save = backend_->SaveSlab(shape, slab.data(), {&back, 1});
      for (const CopyTicket ticket : {load, save}) backend_->WaitForCopy(ticket);
      // Except for the row of the tail that was written.
      const auto tail = static_cast<size_t>(shape.state.TailOffset(layer, position));
      EXPECT_EQ(std::memcmp(saved.data(), first.data(), tail), 0);
      const size_t after = tail + static_cast<size_t>(shape.state.tail_row_bytes);
      EXPECT_EQ(std::memcmp(saved.data() + after, first.data() + after, state - after), 0);
    }
  }
}

/// Equal layers, layers that differ in their heads, and layers that store keys alone. Large enough that work without a
/// dependency runs first.
const KvShape kOrderedShapes[] = {
    {8, 2, 64, DType::kF16, 1, 255},
    {.layers = 8,
     .kv_heads = 4,
     .head_dim = 128,
     .pinned_tiles = 1,
     .ring_tiles = 255,
     .varied = {{2, 64}, {4, 64}, {1, 128}, {2, 96}, {1, 24}, {4, 64}, {2, 64}, {2, 80}}},
    {.layers = 8, .kv_heads = 1, .head_dim = 144, .pinned_tiles = 1, .ring_tiles = 255, .latent_dim = 128}};

class DeviceSlabOfShape : public SlabTest, public ::testing::WithParamInterface<DeviceAndNumber> {
 protected:
  void SetUp() override { Use(std::get<0>(GetParam())); }
};
INSTANTIATE_TEST_SUITE_P(All, DeviceSlabOfShape,
                         ::testing::Combine(::testing::ValuesIn(DeviceNames()),
                                            ::testing::Range<int64_t>(0, std::ssize(kOrderedShapes))),
                         NameOf);

TEST_P(DeviceSlabOfShape, CopiesAndAttentionOnASlabStayOrdered) {
  const KvShape& shape = kOrderedShapes[std::get<1>(GetParam())];
  const auto bytes = static_cast<size_t>(shape.slab_bytes());
  Buffer slab = std::move(backend_->Allocate(bytes).value());
  static std::deque<std::vector<std::byte>> pinned;  // is never freed
  std::vector<std::byte>&first = pinned.emplace_back(Noise(bytes, 1)), &saved = pinned.emplace_back(bytes);
  std::vector<std::byte> second = Noise(bytes, 2);
  backend_->PinHost(first.data(), bytes);  // where pinning has a benefit, copies are asynchronous
  backend_->PinHost(saved.data(), bytes);
  const int64_t position = 200 * KvShape::kTile + 5, first_live = 16;
  const DType type = backend_->activation_dtype();
  const auto attend = [&](int64_t layer, const Buffer& in) {
    const auto [kv_heads, head_dim] = shape.Layer(layer);
    const int64_t heads = 2 * kv_heads, stored = (shape.latent_dim > 0 ? 1 : 2) * kv_heads,
                  width = (heads + stored) * head_dim, columns = heads * shape.ValueDim(head_dim);
    std::vector<float> values(static_cast<size_t>(width));
    for (size_t i = 0; i < values.size(); ++i) values[i] = 0.01f * static_cast<float>(i % 37) - 0.2f;
    DeviceMatrix qkv(*backend_, type, 1, width, values),
        out(*backend_, type, 1, columns, std::vector<float>(static_cast<size_t>(columns), NAN));
    const AttentionSegment segment{0, 1, position, 16, &first_live, in.data()};
    backend_->Attention({.qkv = qkv.tensor(),
                         .out = out.tensor(),
                         .layer = layer,
                         .shape = shape,
                         .heads = heads,
                         .pairs = RopePairs::kNone,
                         .scores = {.scale = 0.125f},
                         .segments = {&segment, 1}});
    return out.Get();
  };
  Buffer still = std::move(backend_->Allocate(bytes).value());
  backend_->CopyToDevice(still.data(), first.data(), bytes);
  backend_->Synchronize();
  for (const int64_t layer : {0, 3, 7}) {
    const std::vector<float> want = attend(layer, still);
    backend_->CopyToDevice(slab.data(), second.data(), bytes);
    const CopyTicket load = backend_->LoadSlab(shape, slab.data(), WholeSlab(shape, first.data()));
    EXPECT_EQ(attend(layer, slab), want) << "layer " << layer;
    // The save sees the load, and the next load comes after it.
    const CopyTicket save = backend_->SaveSlab(shape, slab.data(), WholeSlab(shape, saved.data()));
    const CopyTicket again = backend_->LoadSlab(shape, slab.data(), WholeSlab(shape, second.data()));
    for (const CopyTicket ticket : {again, save, load}) backend_->WaitForCopy(ticket);
    // Except for the row that attention wrote in its layer.
    int64_t different = 0;
    for (int64_t tile = 0; tile < shape.pinned_tiles + shape.ring_tiles; ++tile) {
      for (int64_t other = 0; other < shape.layers; ++other) {
        if (other == layer) continue;
        const int64_t at = shape.TileOffset(other, tile, 0);
        different +=
            std::memcmp(saved.data() + at, first.data() + at, static_cast<size_t>(shape.LayerTileBytes(other))) != 0;
      }
    }
    EXPECT_EQ(different, 0);
    EXPECT_EQ(Read(slab), second);
  }
}

// Memory that is committed as a conversation grows, with stale NaN in new pages: results equal those in a full slab,
// and uncommitted memory is never accessed.
TEST_P(DeviceSlab, AttentionReadsOnlyTheMappedPrefix) {
  const KvShape shape{4, 8, 128, DType::kF16, 1, 64};
  const auto bytes = static_cast<size_t>(shape.slab_bytes()), page = static_cast<size_t>(backend_->page_bytes(bytes));
  ASSERT_LT(8 * page, bytes);
  const std::vector<std::byte> poison(bytes, std::byte{0xff});
  const Buffer whole = std::move(backend_->Allocate(bytes).value()),
               grown = std::move(backend_->Reserve((bytes + page - 1) / page * page).value());
  backend_->CopyToDevice(whole.data(), poison.data(), bytes);
  const DType type = backend_->activation_dtype();
  constexpr int64_t kLayer = 1, kPinned = 4, kColumns = (16 + 2 * 8) * 128;
  const std::vector<int64_t> first_live(200, kPinned);
  const auto attend = [&](const Buffer& slab, int64_t position, int64_t rows) {
    std::vector<float> values(static_cast<size_t>(rows * kColumns));
    std::mt19937 random(static_cast<uint32_t>(position));
    for (float& value : values) value = static_cast<float>(random() % 64) / 64 - 0.5f;
    DeviceMatrix qkv(*backend_, type, rows, kColumns, values),
        out(*backend_, type, rows, 16 * 128, std::vector<float>(static_cast<size_t>(rows * 16 * 128), NAN));
    const AttentionSegment segment{0, rows, position, kPinned, first_live.data(), slab.data()};
    backend_->Attention({.qkv = qkv.tensor(),
                         .out = out.tensor(),
                         .layer = kLayer,
                         .shape = shape,
                         .heads = 16,
                         .pairs = RopePairs::kNone,
                         .scores = {.scale = 0.088f},
                         .segments = {&segment, 1}});
    return out.Get();
  };
  size_t committed = 0;
  int64_t position = 0;
  for (const int64_t rows : {150, 1, 1, 7, 90, 1, 200, 3}) {
    const auto held = static_cast<size_t>(shape.HeldBytes(position + rows, kPinned));
    if (held > committed) {
      const size_t more = (held - committed + page - 1) / page * page;
      std::byte* end = static_cast<std::byte*>(grown.data()) + committed;
      ASSERT_TRUE(backend_->Commit(end, more).ok());
      backend_->CopyToDevice(end, poison.data(), more);
      committed += more;
    }
    const std::vector<float> want = attend(whole, position, rows);
    EXPECT_EQ(attend(grown, position, rows), want) << rows << " rows at " << position;
    EXPECT_TRUE(std::all_of(want.begin(), want.end(), [](float x) { return std::isfinite(x); }));
    position += rows;
  }
  EXPECT_LT(committed, bytes / 2 + 2 * page);
  // Work issued before may still use the freed memory, which is committed again.
  std::vector<std::byte> saved(committed), again(committed, std::byte{1});
  const SlabRun run{0, static_cast<int64_t>(committed), saved.data()};
  const CopyTicket save = backend_->SaveSlab(shape, grown.data(), {&run, 1});
  backend_->Decommit(grown.data(), committed);
  ASSERT_TRUE(backend_->Commit(grown.data(), committed).ok());
  backend_->WaitForCopy(save);
  const SlabRun back{0, run.bytes, saved.data()}, out{0, run.bytes, again.data()};
  backend_->WaitForCopy(backend_->LoadSlab(shape, grown.data(), {&back, 1}));
  backend_->WaitForCopy(backend_->SaveSlab(shape, grown.data(), {&out, 1}));
  EXPECT_EQ(again, saved);
  EXPECT_EQ(attend(grown, position, 5), attend(whole, position, 5));
  EXPECT_TRUE(backend_->status().ok());
}

TEST_P(DeviceSlab, RefusesUnavailableMemoryAndRecovers) {
  const std::optional<size_t> free = backend_->free_bytes();
  if (!free) return;  // unknown
  const auto page = static_cast<size_t>(backend_->page_bytes(1 << 30));
  const size_t all = *free / page * page;
  {
    const Buffer range = std::move(backend_->Reserve(all + page).value());
    EXPECT_EQ(backend_->Commit(range.data(), all + page).code(), StatusCode::kOverloaded);
    EXPECT_TRUE(backend_->Commit(range.data(), all).ok());
    EXPECT_LT(*backend_->free_bytes(), page);
    backend_->Decommit(range.data(), page);
    EXPECT_TRUE(backend_->Commit(range.data(), page).ok());
  }
  EXPECT_EQ(backend_->free_bytes(), free);
  EXPECT_TRUE(backend_->status().ok());
}

}  // namespace
}  // namespace ringside::testing
