// Settings against the machine's resources: refused by name if they cannot be satisfied.
#include "ws/config/machine.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace ringside {
namespace {

constexpr int64_t kMiB = 1 << 20;

TEST(MachineTest, ConnectionsLeaveDescriptorsForTheStore) {
  EXPECT_EQ(ResolveConnections({}, 1 << 20), 1024);
  EXPECT_EQ(ResolveConnections({}, 2048), 1024);
  EXPECT_EQ(ResolveConnections({}, 1024), 512);
  EXPECT_EQ(ResolveConnections(5000, 1 << 20), 5000);
  EXPECT_EQ(ResolveConnections(5000, 4096), 4096 - 1536);
  EXPECT_EQ(ResolveConnections(3, 1024), 3);
  EXPECT_EQ(ResolveConnections({}, 1), 1);
}

TEST(MachineTest, RaisesTheSoftFileLimitToTheHardLimit) {
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  rlimit less = files;
  less.rlim_cur = std::min<rlim_t>(files.rlim_max, 512);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &less), 0);
  EXPECT_EQ(RaiseFileLimit(), static_cast<int64_t>(std::min<rlim_t>(files.rlim_max, 0x7FFFFFFF)));
  rlimit raised{};
  getrlimit(RLIMIT_NOFILE, &raised);
  EXPECT_EQ(raised.rlim_cur, files.rlim_max);
  setrlimit(RLIMIT_NOFILE, &files);
}

TEST(Machine, MemoryHoldsCachesSlotsAndWeights) {
  EXPECT_TRUE(CheckMemory({.host_cache_mb = 1024}, 1024 * kMiB).ok());
  EXPECT_EQ(CheckMemory({.host_cache_mb = 1025}, 1024 * kMiB).message(),
            "--host-cache-mb: 1025 MiB are more than the 1024 MiB of memory that this machine has");
  const MemoryNeed need{.host_cache_mb = 100, .slots = 8, .slot_bytes = 64 * kMiB, .weight_bytes = 90 * kMiB};
  EXPECT_TRUE(CheckMemory(need, 702 * kMiB).ok());
  EXPECT_EQ(
      CheckMemory(need, 701 * kMiB).message(),
      "--slots: 8 slots of 64.0 MiB (--memory-len), 90.0 MiB of weights and --host-cache-mb 100 are more than the "
      "701 MiB of memory that this machine has; lower --memory-len, --slots or --host-cache-mb, or choose a smaller "
      "model");
  // Slots that cannot all be full.
  MemoryNeed less = need;
  less.kv_cache_mb = 300;
  EXPECT_TRUE(CheckMemory(less, 490 * kMiB).ok());
  EXPECT_EQ(CheckMemory(less, 489 * kMiB).message(),
            "--kv-cache-mb: 300 MiB for caches, 90 MiB of weights and --host-cache-mb 100 are more than the 489 MiB of "
            "memory that this machine has; lower --kv-cache-mb or --host-cache-mb, or choose a smaller model");
  EXPECT_GT(MachineMemoryBytes(), 16 * kMiB);
}

TEST(Machine, WeightsFitBeforeTheyAreRead) {
  EXPECT_TRUE(CheckWeights(int64_t{1} << 30, int64_t{1} << 30, "memory").ok());
  EXPECT_EQ(CheckWeights(int64_t{3} << 29, int64_t{1} << 30, "memory of this machine").message(),
            "--model: 1.5 GiB of weights do not fit into the 1.0 GiB of memory of this machine, caches not counted; "
            "choose a smaller model or one with fewer bits per weight (`ringside models` lists what fits), or share it "
            "with --tensor-parallel-size");
}

TEST(Machine, CachesTakeThreeQuartersOfFreeMemory) {
  const MemoryNeed need{.host_cache_mb = 1024, .weight_bytes = int64_t{4} << 30};
  EXPECT_EQ(CacheBytesLeft(need, int64_t{16} << 30), (int64_t{11} << 30) / 4 * 3);
  EXPECT_EQ(CacheBytesLeft(need, int64_t{5} << 30), 64 * kMiB) << "whether there is as much is CheckMemory's question";
}

TEST(Machine, StoreMustBeAWritableFolder) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("ringside_machine_" + std::to_string(getpid()));
  std::filesystem::remove_all(folder);
  EXPECT_TRUE(PrepareStoreFolder(folder / "a/b").ok());
  EXPECT_TRUE(std::filesystem::is_directory(folder / "a/b"));
  EXPECT_TRUE(PrepareStoreFolder(folder / "a/b").ok());
  const std::string file = folder / "file";
  std::ofstream(file) << "x";
  EXPECT_EQ(PrepareStoreFolder(file).message(), "--store-path: \"" + file + "\" cannot be made: Not a directory");
  EXPECT_EQ(PrepareStoreFolder(file + "/b").code(), StatusCode::kInvalidArgument);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace ringside
