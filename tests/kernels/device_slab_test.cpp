// Slabs to the host and back on every device there is: the bytes of the runs and no others, in the order of the calls,
// and no attention before its layer is in.
#include <gtest/gtest.h>

#include <random>

#include "tests/kernels/devices.h"

namespace ringside::testing {
namespace {

class DeviceSlab : public DeviceTest, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override { Use(GetParam()); }
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
INSTANTIATE_TEST_SUITE_P(All, DeviceSlab, ::testing::ValuesIn(DeviceNames()),
                         [](const auto& info) { return info.param; });

TEST_P(DeviceSlab, RunsGoToTheHostAndBackAndNothingElseDoes) {
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

TEST_P(DeviceSlab, CopiesOfOneSlabAndAttentionOnItKeepTheirOrder) {
  // Large enough that what does not wait comes first.
  const KvShape shape{8, 2, 64, DType::kF16, 1, 255};
  const auto bytes = static_cast<size_t>(shape.slab_bytes());
  Buffer slab = std::move(backend_->Allocate(bytes).value());
  static std::vector<std::byte> first = Noise(bytes, 1), saved(bytes);  // what is pinned stays
  std::vector<std::byte> second = Noise(bytes, 2);
  backend_->PinHost(first.data(), bytes);  // where there is something to gain, copies do not wait by themselves
  backend_->PinHost(saved.data(), bytes);
  const int64_t position = 200 * KvShape::kTile + 5, first_live = 16;
  const DType type = backend_->activation_dtype();
  std::vector<float> values(static_cast<size_t>(8 * 64));
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.01f * static_cast<float>(i % 37) - 0.2f;
  const auto attend = [&](int64_t layer, const Buffer& in) {
    DeviceMatrix qkv(*backend_, type, 1, 8 * 64, values), out(*backend_, type, 1, 4 * 64, std::vector<float>(256, NAN));
    const AttentionSegment segment{0, 1, position, 16, &first_live, in.data()};
    backend_->Attention({.qkv = qkv.tensor(),
                         .out = out.tensor(),
                         .layer = layer,
                         .shape = shape,
                         .heads = 4,
                         .pairs = RopePairs::kNone,
                         .scale = 0.125f,
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
    // But for the row that attention wrote in its layer.
    int64_t different = 0;
    const int64_t part = shape.layer_tile_bytes();
    for (int64_t at = 0; at < shape.slab_bytes(); at += part) {
      if (at / part % shape.layers == layer) continue;
      different += std::memcmp(saved.data() + at, first.data() + at, static_cast<size_t>(part)) != 0;
    }
    EXPECT_EQ(different, 0);
    EXPECT_EQ(Read(slab), second);
  }
}

}  // namespace
}  // namespace ringside::testing
