// Preparing host memory for copies: piece by piece, prefaulted before it is pinned, because the driver would otherwise
// wait for the page faults.
#include "cache/host_arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <mutex>

#include "cache/blob_reserve.h"
#include "tests/kernels/forwarding_backend.h"

namespace ringside {
namespace {

constexpr size_t kCell = (size_t{1} << 20) - 4096, kPieceCells = 128, kPiece = kPieceCells * kCell;

class PinningBackend final : public ForwardingBackend {
 public:
  /// Pins up to `pieces` pieces.
  explicit PinningBackend(size_t pieces)
      : ForwardingBackend(std::move(*MakeCpuBackend({.threads = 1}))), pieces_(pieces) {}

  bool PinHost(void* data, size_t bytes) override {
    std::vector<unsigned char> pages(bytes / 4096);
    EXPECT_EQ(mincore(data, bytes, pages.data()), 0);
    std::lock_guard lock(mutex_);
    there_.push_back(std::ranges::count_if(pages, [](unsigned char page) { return (page & 1) != 0; }));
    bytes_ += bytes;
    if (arena_ != nullptr) arena_->Stop();
    return there_.size() <= pieces_;
  }
  void StopWhenAsked(HostArena& arena) { arena_ = &arena; }
  /// Number of resident pages at each pin call.
  const std::vector<std::ptrdiff_t>& there() const { return there_; }
  size_t bytes() const { return bytes_; }

 private:
  const size_t pieces_;
  HostArena* arena_ = nullptr;
  std::mutex mutex_;
  std::vector<std::ptrdiff_t> there_;
  size_t bytes_ = 0;
};

TEST(HostArenaTest, CellsAreReadyAfterTheWaitAndPagesBeforePinning) {
  PinningBackend backend(100);
  HostArena arena;
  arena.Start(backend, kCell, 4 * kPiece);
  arena.Wait();
  EXPECT_EQ(BlobReserve::Instance().free_cells(kCell), 4 * kPieceCells);  // no other test uses this size
  EXPECT_EQ(backend.bytes(), 4 * kPiece);
  ASSERT_EQ(backend.there().size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    // The first piece is not prefaulted: it tests whether pinning helps, so that no memory is committed if it does not.
    EXPECT_EQ(backend.there()[i], i == 0 ? 0 : std::ptrdiff_t{kPiece / 4096}) << i;
  }
}

TEST(HostArenaTest, StopsGrowingWithoutGainOrMemory) {
  {
    // Until a size has cells, free_cells counts those of the next larger one, which other tests may have left.
    PinningBackend backend(1);
    HostArena arena;
    arena.Start(backend, kCell, kPiece);
    arena.Wait();
  }
  for (const size_t pieces : {0, 2}) {
    PinningBackend backend(pieces);
    const size_t before = BlobReserve::Instance().free_cells(kCell);
    HostArena arena;
    arena.Start(backend, kCell, 40 * kPiece);
    arena.Wait();
    EXPECT_EQ(BlobReserve::Instance().free_cells(kCell) - before, pieces * kPieceCells);
    EXPECT_LT(backend.there().size(), 20u);  // each thread asks at most once more
  }
}

TEST(HostArenaTest, CanBeStopped) {
  PinningBackend backend(100);
  HostArena arena;
  backend.StopWhenAsked(arena);
  arena.Start(backend, kCell, 40 * kPiece);
  arena.Wait();
  EXPECT_LT(backend.there().size(), 20u);
}

}  // namespace
}  // namespace ringside
