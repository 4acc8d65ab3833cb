// Host memory that is made fit for copies: piece by piece, and with its pages there before a driver is asked to pin
// them, which would wait for them and let nobody use the device.
#include "cache/host_arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "cache/blob_reserve.h"
#include "tests/kernels/forwarding_backend.h"

namespace ringside {
namespace {

constexpr size_t kCell = size_t{1} << 20, kCall = size_t{8} << 20, kCalls = 16;  // of a piece

class PinningBackend final : public ForwardingBackend {
 public:
  explicit PinningBackend(size_t calls)
      : ForwardingBackend(std::move(*MakeCpuBackend({.threads = 1}))), calls_(calls) {}

  bool PinHost(void* data, size_t bytes) override {
    std::vector<unsigned char> pages(bytes / 4096);
    EXPECT_EQ(mincore(data, bytes, pages.data()), 0);
    there_.push_back(std::ranges::count_if(pages, [](unsigned char page) { return (page & 1) != 0; }));
    if (there_.size() < calls_) return true;
    asked_.set_value(there_);
    return false;  // there is no more
  }
  /// Of what each call was to pin, how many of its pages were there.
  std::vector<std::ptrdiff_t> WaitForAll() { return asked_.get_future().get(); }

 private:
  const size_t calls_;
  std::vector<std::ptrdiff_t> there_;
  std::promise<std::vector<std::ptrdiff_t>> asked_;
};

TEST(HostArenaTest, PagesAreThereBeforeTheyArePinned) {
  PinningBackend backend(2 * kCalls + 1);
  HostArena arena;
  arena.SetDeviceBusy(true);
  arena.Start(backend, kCell, 10 * kCalls * kCall);
  const std::vector<std::ptrdiff_t> there = backend.WaitForAll();
  ASSERT_EQ(there.size(), 2 * kCalls + 1);
  for (size_t i = 0; i < there.size(); ++i) {
    // Where nothing is gained by it no memory is taken: the first piece tells.
    EXPECT_EQ(there[i], i < kCalls ? 0 : std::ptrdiff_t{kCall / 4096}) << i;
  }
}

TEST(HostArenaTest, WhileTheDeviceIsWantedNoMoreIsPinnedThanIsReady) {
  constexpr size_t kOddCell = kCell + 4096;  // no other test's
  constexpr size_t kPiece = (kCalls * kCall / kOddCell) * kOddCell;
  class Counting final : public ForwardingBackend {
   public:
    Counting() : ForwardingBackend(std::move(*MakeCpuBackend({.threads = 1}))) {}
    bool PinHost(void* /*data*/, size_t bytes) override {
      pinned += bytes;
      return true;
    }
    std::atomic<size_t> pinned{0};
  } backend;
  HostArena arena(2 * kPiece);
  const auto wait_for = [&](size_t bytes) {
    while (backend.pinned < bytes) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  arena.SetDeviceBusy(true);
  arena.Start(backend, kOddCell, 6 * kPiece);
  wait_for(2 * kPiece);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // it would have gone on
  EXPECT_EQ(backend.pinned, 2 * kPiece);
  const std::shared_ptr<std::byte[]> taken = BlobReserve::Instance().Take(kOddCell);
  wait_for(3 * kPiece);  // less is ready than should be
  arena.SetDeviceBusy(false);
  wait_for(6 * kPiece);
}

TEST(HostArenaTest, MemoryThatGainsNothingIsNotTaken) {
  PinningBackend backend(1);
  HostArena arena;
  arena.Start(backend, kCell, 10 * kCalls * kCall);
  EXPECT_EQ(backend.WaitForAll().size(), 1u);
}

}  // namespace
}  // namespace ringside
