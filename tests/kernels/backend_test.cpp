// Creation of a backend, its memory and its thread pool.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <string>
#include <system_error>

#include "kernels/cpu/thread_pool.h"
#include "kernels/formats/half.h"
#include "tests/kernels/reference.h"

namespace ringside::testing {
namespace {

TEST(MakeCpuBackend, SelectsTheBestByDefaultAndNamesIt) {
  ASSERT_FALSE(CpuInstructionSets().empty());
  EXPECT_EQ(CpuInstructionSets().front(), "portable");
  auto backend = MakeBackend("", 2);
  EXPECT_EQ(backend->Describe(), std::string(CpuInstructionSets().back()) + ", 2 threads");
  EXPECT_FALSE(backend->multiplies_in_e4m3());
  EXPECT_EQ(MakeBackend("portable", 1)->Describe(), "portable, 1 thread");
}

TEST(MakeCpuBackend, RefusesUnsupportedOptions) {
  EXPECT_EQ(MakeCpuBackend({.instruction_set = "avx1024"}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(MakeCpuBackend({.threads = -1}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(MakeCpuBackend({.threads = 0}).ok());
}

TEST(Memory, IsZeroedAndReleased) {
  auto backend = MakeBackend("", 1);
  for (const size_t bytes : {size_t{1}, size_t{4096}, size_t{100000}, size_t{5} << 20}) {
    Buffer b = std::move(backend->Allocate(bytes).value());
    EXPECT_EQ(b.bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(b.data()) % 64, 0u);
    const char* p = static_cast<const char*>(b.data());
    EXPECT_TRUE(std::all_of(p, p + bytes, [](char c) { return c == 0; }));
    std::memset(b.data(), 1, bytes);
  }
}

TEST(Memory, RefusesImpossibleSizesAndNamesThem) {
  auto backend = MakeBackend("", 1);
  const auto result = backend->Allocate(size_t{1} << 60);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kOverloaded);
  EXPECT_NE(result.status().message().find(std::to_string(size_t{1} << 60)), std::string::npos);
  EXPECT_FALSE(backend->Allocate(SIZE_MAX).ok());
}

TEST(Memory, CopiesBothWays) {
  auto backend = MakeBackend("", 1);
  Buffer a = std::move(backend->Allocate(8).value()), b = std::move(backend->Allocate(8).value());
  const uint64_t in = 0x123456789abcdef0;
  uint64_t out = 0;
  backend->CopyToDevice(a.data(), &in, 8);
  backend->CopyOnDevice(b.data(), a.data(), 8);
  backend->Synchronize();
  backend->CopyToHost(&out, b.data(), 8);
  EXPECT_EQ(out, in);
}

/// Bytes of the file that backs shared pages; -1 = this process has none.
int64_t SharedFileBytes() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    struct stat found {};
    if (target.find("ringside shared pages") != std::string::npos && stat(entry.path().c_str(), &found) == 0)
      return found.st_blocks * 512;
  }
  return -1;
}

TEST(Memory, SharedPagesLeaveWithTheirRange) {
  auto backend = MakeBackend("", 1);
  const int64_t page = backend->page_bytes(int64_t{1} << 30);
  const auto bytes = static_cast<size_t>(2 * page);
  {
    Buffer range = std::move(backend->Reserve(2 * bytes).value());
    auto* from = static_cast<std::byte*>(range.data());
    ASSERT_TRUE(backend->Commit(from, bytes).ok());
    std::memset(from, 1, bytes);
    ASSERT_TRUE(backend->Share(from + bytes, from, bytes).ok());
    EXPECT_EQ(SharedFileBytes(), 2 * page);
    backend->Unshare(from, static_cast<size_t>(page));
    backend->Decommit(from + bytes, static_cast<size_t>(page));
    EXPECT_EQ(SharedFileBytes(), page) << "the last user of a page frees it";
  }
  EXPECT_EQ(SharedFileBytes(), 0) << "so does the end of the range, with pages that are still shared";
}

TEST(Memory, AllocatesAndFreesWeightsOfAnySize) {
  auto backend = MakeBackend("", 1);
  std::vector<Weight> weights;
  for (int i = 0; i < 40; ++i) {
    const RandomWeight w = MakeRandomWeight(DType::kF32, 1 + i * 37, 64, static_cast<uint32_t>(i));
    weights.push_back(std::move(backend->LoadWeight(w.host()).value()));
    if (i % 3 == 0) weights.erase(weights.begin() + i / 6);
  }
  const int32_t id = 0;
  std::vector<float> y(64);
  backend->Embed(weights.back(), {&id, 1}, 1, AsTensor(y, 1, 64));
  EXPECT_EQ(y[5], static_cast<float>(MakeRandomWeight(DType::kF32, 1, 64, 39).values[5]));
}

TEST(Half, EveryFloat16RoundTrips) {
  for (uint32_t h = 0; h < 65536; ++h) {
    const float x = HalfToFloat(static_cast<uint16_t>(h));
    if ((h >> 10 & 31) == 31) {
      EXPECT_TRUE((h & 1023) != 0 ? std::isnan(x) : std::isinf(x));
      continue;
    }
    ASSERT_EQ(x, HalfValue(static_cast<uint16_t>(h)));
    ASSERT_EQ(FloatToHalf(x), h);
  }
}

TEST(Half, RoundsToNearestEven) {
  EXPECT_EQ(FloatToHalf(1.0f + 1.0f / 2048), 0x3c00);  // halfway: to even
  EXPECT_EQ(FloatToHalf(1.0f + 3.0f / 2048), 0x3c02);
  EXPECT_EQ(FloatToHalf(1.0f + 1.01f / 2048), 0x3c01);
  EXPECT_EQ(FloatToHalf(65519.0f), 0x7bff);
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToHalf(std::ldexp(1.0f, -25)), 0);  // halfway to the smallest subnormal
  EXPECT_EQ(FloatToHalf(std::ldexp(1.1f, -25)), 1);
  EXPECT_EQ(FloatToHalf(-std::ldexp(3.0f, -25)), 0x8002);
  EXPECT_EQ(FloatToBf16(1.0f + 1.0f / 256), 0x3f80);
  EXPECT_EQ(FloatToBf16(1.0f + 3.0f / 256), 0x3f82);
  EXPECT_TRUE(std::isnan(Bf16ToFloat(FloatToBf16(std::nanf("")))));
}

TEST(Half, E4M3RoundsToNearestEvenAndSaturates) {
  for (int code = 0; code < 256; ++code) {
    const float x = E4M3ToFloat(static_cast<uint8_t>(code));
    const int magnitude = code & 0x7f;
    if (magnitude == 0x7f) {
      EXPECT_TRUE(std::isnan(x));
    } else {
      const float want = magnitude < 8 ? std::ldexp(static_cast<float>(magnitude), -9)
                                       : std::ldexp(1.0f + static_cast<float>(magnitude % 8) / 8, magnitude / 8 - 7);
      EXPECT_EQ(x, code < 128 ? want : -want);
    }
    EXPECT_EQ(FloatToE4M3(x), code);
    if (magnitude >= 0x7e) continue;
    const float next = E4M3ToFloat(static_cast<uint8_t>(code + 1)), middle = (x + next) / 2;
    EXPECT_EQ(FloatToE4M3(middle), code + code % 2) << middle;
    EXPECT_EQ(FloatToE4M3(std::nextafter(middle, x)), code);
    EXPECT_EQ(FloatToE4M3(std::nextafter(middle, next)), code + 1);
  }
  EXPECT_EQ(FloatToE4M3(1e30f), 0x7e);
  EXPECT_EQ(FloatToE4M3(-INFINITY), 0xfe);
}

TEST(ThreadPool, ReportsItsCores) {
  EXPECT_GE(cpu::UsableCores(), 1);
  EXPECT_LE(cpu::UsableCores(), static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
}

TEST(ThreadPool, RunsEveryPieceOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    cpu::ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int round = 0; round < 300; ++round) {
      const int64_t pieces = round % 41;
      std::vector<std::atomic<int>> hits(static_cast<size_t>(pieces));
      pool.Run(pieces, [&](int64_t i) { hits[static_cast<size_t>(i)].fetch_add(1); });
      for (const auto& h : hits) ASSERT_EQ(h.load(), 1);
    }
  }
}

TEST(ThreadPool, WakesAfterSleeping) {
  cpu::ThreadPool pool(3);
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // workers are asleep by now
    std::vector<int64_t> out(100);
    pool.Run(100, [&](int64_t i) { out[static_cast<size_t>(i)] = i; });
    EXPECT_EQ(std::accumulate(out.begin(), out.end(), int64_t{0}), 4950);
  }
}

}  // namespace
}  // namespace ringside::testing
