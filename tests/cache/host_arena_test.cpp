// Host memory that is made fit for copies: piece by piece, and with its pages there before a driver is asked to pin
// them, which would wait for them and let nobody use the device.
#include "cache/host_arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <future>

#include "tests/kernels/forwarding_backend.h"

namespace ringside {
namespace {

constexpr size_t kCell = size_t{1} << 20, kCall = size_t{16} << 20, kCalls = 8;  // of a piece

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

TEST(HostArenaTest, MemoryThatGainsNothingIsNotTaken) {
  PinningBackend backend(1);
  HostArena arena;
  arena.Start(backend, kCell, 10 * kCalls * kCall);
  EXPECT_EQ(backend.WaitForAll().size(), 1u);
}

}  // namespace
}  // namespace ringside
