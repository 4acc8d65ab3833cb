#include "cache/blob_reserve.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/limits.h"
#include "cache/blob.h"

namespace ringside {
namespace {

// Each test uses a different size: the reserve is shared by the process.
TEST(BlobReserve, ReusesMemoryForBlobsOfTheSameSize) {
  constexpr size_t kBytes = 1'000'001;
  BlobReserve& reserve = BlobReserve::Instance();
  Blob first = Blob::Make(kBytes);
  const std::byte* memory = first.data();
  Blob shared = first;
  first = Blob();
  EXPECT_EQ(reserve.waiting_blocks(kBytes), 0u) << "still held";
  shared = Blob();
  EXPECT_EQ(reserve.waiting_blocks(kBytes), 1u);
  const Blob other = Blob::Make(kBytes + 1);
  EXPECT_NE(other.data(), memory);
  const Blob next = Blob::Make(kBytes);
  EXPECT_EQ(next.data(), memory);
  EXPECT_EQ(reserve.waiting_blocks(kBytes), 0u);
}

TEST(BlobReserve, AllocatesBlocksInAdvance) {
  constexpr size_t kBytes = 1'000'003;
  BlobReserve& reserve = BlobReserve::Instance();
  reserve.Prefault(kBytes, 3);
  EXPECT_EQ(reserve.waiting_blocks(kBytes), 3u);
  reserve.Prefault(kBytes, 2);
  EXPECT_EQ(reserve.waiting_blocks(kBytes), 3u);
  std::vector<Blob> blobs;
  for (int i = 0; i < 3; ++i) blobs.push_back(Blob::Make(kBytes));
  EXPECT_EQ(reserve.waiting_blocks(kBytes), 0u);
}

TEST(BlobReserve, IsBoundedAndFreesUnusedSizes) {
  constexpr size_t kBytes = 5'000'011, kLimit = static_cast<size_t>(limits::kBlobReserveBytes);
  BlobReserve& reserve = BlobReserve::Instance();
  reserve.Prefault(kBytes, 1'000'000);
  EXPECT_EQ(reserve.waiting_blocks(kBytes), kLimit / kBytes);
  EXPECT_LE(reserve.waiting_bytes(), kLimit);
  const size_t full = reserve.waiting_bytes();
  { const Blob beyond = Blob::Make(kBytes + 1); }  // freed permanently
  EXPECT_EQ(reserve.waiting_bytes(), full);
  reserve.Prefault(1'000'005, 8);
  EXPECT_EQ(reserve.waiting_blocks(1'000'005), 8u);
  EXPECT_LT(reserve.waiting_blocks(kBytes), kLimit / kBytes);
  EXPECT_LE(reserve.waiting_bytes(), kLimit);
  reserve.Prefault(100, 10);
  EXPECT_EQ(reserve.waiting_blocks(100), 0u) << "too small to be worth it";
}

TEST(BlobReserve, ManyThreadsAllocateAndFree) {
  constexpr size_t kBytes = 100'003;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        Blob blob = Blob::Make(kBytes);
        blob.writable()[i % kBytes] = std::byte(t);
        if (i % 7 == 0) std::this_thread::yield();
        wrong += blob.data()[i % kBytes] != std::byte(t) ? 1 : 0;  // no other thread has it
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(BlobReserve, ReusesReturnedCellsFirst) {
  constexpr size_t kCell = 3'000'001;
  static std::vector<std::byte> memory(2 * kCell);  // never freed
  BlobReserve& reserve = BlobReserve::Instance();
  const auto inside = [](const Blob& blob) {
    return blob.data() >= memory.data() && blob.data() < memory.data() + memory.size();
  };
  EXPECT_FALSE(inside(Blob::Make(kCell)));
  EXPECT_FALSE(reserve.has_cells(kCell));
  reserve.Lend(memory.data(), kCell, 2);
  EXPECT_EQ(reserve.free_cells(kCell), 2u);
  for (const size_t at : {size_t{0}, kCell, 2 * kCell - 1}) EXPECT_TRUE(reserve.IsInCell(memory.data() + at));
  EXPECT_FALSE(reserve.IsInCell(memory.data() + 2 * kCell));
  EXPECT_FALSE(reserve.IsInCell(nullptr));
  {
    const Blob whole = Blob::Make(kCell), part = Blob::Make(kCell / 8), third = Blob::Make(kCell);
    EXPECT_TRUE(inside(whole));
    EXPECT_TRUE(inside(part)) << "an eighth is worth it";
    EXPECT_NE(whole.data(), part.data());
    EXPECT_FALSE(inside(third)) << "there were two";
    EXPECT_EQ(reserve.free_cells(kCell), 0u);
    EXPECT_TRUE(reserve.has_cells(kCell)) << "they are taken, and there";
  }
  EXPECT_EQ(reserve.free_cells(kCell), 2u);
  EXPECT_EQ(reserve.free_cells(kCell + 1), 0u);
  EXPECT_FALSE(inside(Blob::Make(kCell / 8 - 1)));
  EXPECT_FALSE(inside(Blob::Make(kCell + 1)));
}

}  // namespace
}  // namespace ringside
