// Every documented model starts with all defaults and its trained context as the window: kernels can index the half
// tiles of all slots.
#include "engine/slot_plan.h"

#include <gtest/gtest.h>

#include <set>

#include "cache/kv_pool.h"
#include "kernels/half_tiles.h"
#include "tests/kernels/forwarding_backend.h"

namespace ringside {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

// A GPU's page size and free memory; reserves nothing.
class PlannedMemory final : public ForwardingBackend {
 public:
  explicit PlannedMemory(int64_t free) : ForwardingBackend(std::move(*MakeCpuBackend({.threads = 1}))), free_(free) {}
  std::optional<size_t> free_bytes() const override { return static_cast<size_t>(free_); }
  int64_t page_bytes(int64_t) const override { return 2 << 20; }

 private:
  const int64_t free_;
};

struct Shape {
  const char* name;
  int64_t layers, kv_heads, head_dim, trained;
  int64_t weights_gib, devices = 1;
};

constexpr Shape kShapes[] = {
    {"SmolLM2-135M", 30, 3, 64, 8192, 1},        {"SmolLM3-3B", 36, 4, 128, 65536, 7},
    {"Llama-3.2-1B", 16, 8, 64, 131072, 3},      {"Llama-3.2-3B", 28, 8, 128, 131072, 7},
    {"Llama-3-8B", 32, 8, 128, 8192, 16},        {"Llama-3.1-8B", 32, 8, 128, 131072, 16},
    {"Llama-3-70B", 80, 8, 128, 131072, 132, 8}, {"Qwen2.5-7B", 28, 4, 128, 131072, 15},
    {"Qwen3-0.6B", 28, 8, 128, 40960, 2},        {"Qwen3-30B-A3B", 48, 4, 128, 40960, 57},
    {"Mistral-7B", 32, 8, 128, 32768, 15},       {"Ministral-8B", 36, 8, 128, 131072, 16},
    {"Gemma-3-1B", 26, 1, 256, 32768, 2},        {"Gemma-3-27B", 62, 16, 128, 131072, 55},
    {"Phi-4-mini", 32, 8, 128, 131072, 8},       {"Phi-2", 32, 32, 80, 2048, 6},
    {"gpt-oss-20b", 24, 8, 64, 131072, 13},      {"gpt-oss-120b", 36, 8, 64, 131072, 61},
    {"Command-R7B", 32, 8, 128, 131072, 15},     {"OLMo-2-7B", 32, 32, 128, 4096, 14},
    {"Granite-3.3-8B", 40, 8, 128, 131072, 16},  {"StarCoder2-3B", 30, 2, 128, 16384, 6},
    {"Falcon-7B", 32, 1, 64, 2048, 14},          {"GPT-2", 12, 12, 64, 1024, 1},
};

TEST(SlotPlan, EveryShapeStartsWithItsTrainedContextAndAllDefaults) {
  for (const Shape& shape : kShapes) {
    for (const int64_t gib : {24, 80, 141}) {
      const int64_t free = (gib * 9 / 10 * shape.devices - shape.weights_gib) * kGiB;
      if (free < 50 * kGiB && gib < 141) continue;  // a window of the largest does not fit
      const PlannedMemory memory(free);
      const NetworkShape network{.layers = shape.layers,
                                 .kv_heads = shape.kv_heads,
                                 .head_dim = shape.head_dim,
                                 .max_heads = shape.layers * shape.kv_heads / shape.devices};
      EngineOptions options{.slots = 0, .memory_len = shape.trained - std::min<int64_t>(256, shape.trained / 4)};
      options.prefill_chunk = options.step_tokens = 2048;
      const Status planned = PlanSlots(memory, network, &options);
      ASSERT_TRUE(planned.ok()) << shape.name << ": " << planned.ToString();
      const KvShape cache = CacheShape(network, options);
      const int64_t of_device = options.slots * KvPool::SlabBytes(memory, cache) / shape.devices;
      EXPECT_LE(of_device / cache.half_tile_bytes(), kMaxHalfTiles) << shape.name << ", " << options.slots << " slots";
      EXPECT_GE(options.slots, 64) << shape.name;
    }
  }
}

EngineOptions Fitting(int64_t memory_len) { return {.slots = 0, .memory_len = memory_len, .fits_window = true}; }

TEST(SlotPlan, WindowIsLimitedByMemory) {
  const NetworkShape network{.layers = 32, .kv_heads = 8, .head_dim = 128};  // Llama-3.1-8B: 128 KiB per token
  for (const int64_t mib : {96, 640, 5 << 10, 9 << 10, 17 << 10, 100 << 10}) {
    const PlannedMemory memory(mib << 20);
    EngineOptions options = Fitting(131072 - 256);
    FitWindow(memory, network, &options);
    const int64_t slab_bytes = KvPool::SlabBytes(memory, CacheShape(network, options));
    EXPECT_LE(slab_bytes, mib << 20) << mib;
    if (mib > 17 << 10) {
      EXPECT_EQ(options.memory_len, 131072 - 256) << mib;
    } else if (mib > 96) {
      EXPECT_GT(slab_bytes, (mib << 20) / 10 * 9) << mib;
    }
    EXPECT_TRUE(PlanSlots(memory, network, &options).ok()) << mib;
  }
  // Slightly less memory gives the same window.
  std::set<int64_t> windows;
  for (int64_t mib = 0; mib < 32; ++mib) {
    const PlannedMemory less(9 * kGiB - (mib << 20));
    EngineOptions options = Fitting(131072 - 256);
    FitWindow(less, network, &options);
    windows.insert(options.memory_len);
  }
  EXPECT_LE(windows.size(), 2u);
  // The operator gives the caches less memory than available.
  const PlannedMemory memory(100 * kGiB);
  EngineOptions bounded = Fitting(131072 - 256);
  bounded.kv_bytes = 9 * kGiB;
  FitWindow(memory, network, &bounded);
  EXPECT_GT(bounded.memory_len, 60'000);
  EXPECT_LT(bounded.memory_len, 9 * kGiB / (128 << 10));
  EngineOptions asked = Fitting(131072 - 256);
  asked.fits_window = false;
  asked.kv_bytes = 9 * kGiB;
  FitWindow(memory, network, &asked);
  EXPECT_EQ(asked.memory_len, 131072 - 256) << "what was asked for is refused elsewhere, not lowered";
}

TEST(SlotPlan, CountsTheRecurrentState) {
  // Qwen3.6-35B-A3B: 10 attention layers, 30 recurrent ones with about 2 MiB each.
  const NetworkShape network{.layers = 10,
                             .kv_heads = 2,
                             .head_dim = 256,
                             .state = {.layers = 30, .boundary_bytes = (2 << 20) + 98304, .tail_row_bytes = 49152}};
  const NetworkShape without{.layers = 10, .kv_heads = 2, .head_dim = 256};
  for (const int64_t slots : {2, 4, 8}) {
    EngineOptions options = Fitting(131072 - 256);
    options.state_slots = slots;
    const KvShape shape = CacheShape(network, options);
    EXPECT_EQ(shape.state.slots, slots);
    EXPECT_EQ(shape.slab_bytes() - CacheShape(without, options).slab_bytes(), shape.state.bytes());
    EXPECT_GE(shape.state.bytes(), 30 * (slots * ((2 << 20) + 98304) + 64 * 49152));
    EXPECT_EQ(shape.HeldBytes(0, 0), shape.state.bytes()) << "the state needs memory from the first token on";
    const PlannedMemory memory(2 * kGiB);
    FitWindow(memory, network, &options);
    EXPECT_LE(KvPool::SlabBytes(memory, CacheShape(network, options)), 2 * kGiB);
    EXPECT_TRUE(PlanSlots(memory, network, &options).ok());
    EXPECT_LE(options.slots * shape.state.bytes(), options.kv_bytes);
  }
}

TEST(SlotPlan, RequestedSlotsHoldAtMostWholeWindows) {
  const NetworkShape network{.layers = 30, .kv_heads = 3, .head_dim = 64};
  const std::unique_ptr<Backend> cpu = std::move(*MakeCpuBackend({.threads = 1}));  // free memory: unknown
  EngineOptions options = Fitting(7936);
  options.slots = 8;
  options.kv_bytes = 12 * kGiB;
  FitWindow(*cpu, network, &options);
  ASSERT_TRUE(PlanSlots(*cpu, network, &options).ok());
  EXPECT_EQ(options.memory_len, 7936);
  EXPECT_EQ(options.slots, 8);
  EXPECT_EQ(options.kv_bytes, 8 * KvPool::SlabBytes(*cpu, CacheShape(network, options)));
}

TEST(SlotPlan, ReachesTheBoundWithoutExceedingIt) {
  const NetworkShape network{.layers = 16, .kv_heads = 8, .head_dim = 64};
  const PlannedMemory memory(120 * kGiB);
  EngineOptions options{.slots = 0, .memory_len = 49152};
  ASSERT_TRUE(PlanSlots(memory, network, &options).ok());
  const int64_t slab_bytes = KvPool::SlabBytes(memory, CacheShape(network, options));
  EXPECT_EQ(options.slots, MaxSlots(network, CacheShape(network, options), slab_bytes));
  EXPECT_LE(options.slots * slab_bytes / 2048, kMaxHalfTiles);
  EXPECT_GT((options.slots + 2) * slab_bytes / 2048, kMaxHalfTiles);
  EngineOptions asked{.slots = 4000, .memory_len = 49152};
  ASSERT_TRUE(PlanSlots(memory, network, &asked).ok());
  EXPECT_EQ(asked.slots, options.slots);
  EngineOptions few{.slots = 7, .memory_len = 49152};
  ASSERT_TRUE(PlanSlots(memory, network, &few).ok());
  EXPECT_EQ(few.slots, 7);
  // With an eighth of the heads a device can address eight times as much.
  const NetworkShape shared{.layers = 16, .kv_heads = 8, .head_dim = 64, .max_heads = 16};
  EXPECT_NEAR(static_cast<double>(MaxSlots(shared, CacheShape(shared, options), slab_bytes)),
              static_cast<double>(8 * options.slots), 16);
}

}  // namespace
}  // namespace ringside
