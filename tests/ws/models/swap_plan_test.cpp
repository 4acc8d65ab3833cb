// Which model is loaded and unloaded, on made-up states; and two models that are asked in turns, played to the end.
#include "ws/models/swap_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ringside {
namespace {

constexpr SwapLimits kOne{.models = 1, .bytes = 100, .slice_ns = 50};

TEST(SwapPlanTest, NothingWaitsNothingHappens) {
  const SwapModel models[] = {{.loaded = true, .running = 1}, {}};
  const SwapPlan plan = PlanSwap(models, kOne, 0);
  EXPECT_FALSE(plan.load || plan.unload || plan.held || plan.again_ns);
}

TEST(SwapPlanTest, OldestWaitingModelIsLoadedFirst) {
  const SwapModel models[] = {{.waits_ns = 7}, {.waits_ns = 5}, {.waits_ns = 6}};
  EXPECT_EQ(PlanSwap(models, kOne, 10).load, 1U);
}

TEST(SwapPlanTest, LeastRecentlyUsedIdleModelMakesRoom) {
  const SwapLimits three{.models = 3, .bytes = 100, .slice_ns = 50};
  const SwapModel models[] = {{.loaded = true, .used_ns = 3},
                              {.loaded = true, .running = 1, .used_ns = 1},
                              {.loaded = true, .used_ns = 2},
                              {.waits_ns = 9}};
  const SwapPlan plan = PlanSwap(models, three, 10);
  EXPECT_EQ(plan.unload, 2U);
  EXPECT_FALSE(plan.load);
}

TEST(SwapPlanTest, MemoryBoundsTheModelsAsTheirNumberDoes) {
  const SwapLimits many{.models = 8, .bytes = 100, .slice_ns = 50};
  SwapModel models[] = {{.loaded = true, .bytes = 60}, {.waits_ns = 1, .bytes = 40}};
  EXPECT_EQ(PlanSwap(models, many, 10).load, 1U);
  models[1].bytes = 41;
  EXPECT_EQ(PlanSwap(models, many, 10).unload, 0U);
}

TEST(SwapPlanTest, ModelWithRunningTurnsIsHeldAfterItsSliceOnly) {
  const SwapModel models[] = {{.loaded = true, .running = 2, .loaded_ns = 100}, {.waits_ns = 101}};
  SwapPlan plan = PlanSwap(models, kOne, 149);
  EXPECT_FALSE(plan.load || plan.unload || plan.held);
  EXPECT_EQ(plan.again_ns, 150);
  plan = PlanSwap(models, kOne, 150);
  EXPECT_EQ(plan.held, 0U);
  EXPECT_FALSE(plan.unload);
}

TEST(SwapPlanTest, OfSeveralBusyModelsTheLongestLoadedIsHeld) {
  const SwapLimits two{.models = 2, .bytes = 100, .slice_ns = 50};
  const SwapModel models[] = {{.loaded = true, .running = 1, .loaded_ns = 20},
                              {.loaded = true, .running = 1, .loaded_ns = 10},
                              {.waits_ns = 30}};
  EXPECT_EQ(PlanSwap(models, two, 1000).held, 1U);
}

// Each model gets a turn that lasts 20 at every time unit; a load takes 3. Neither model waits for longer than a slice,
// a turn and two loads.
TEST(SwapPlanTest, TwoModelsAskedAllTheTimeBothProgress) {
  struct Played {
    SwapModel model;
    std::vector<int64_t> waiting, ends;
  };
  Played played[2];
  Played* loading = nullptr;
  std::optional<size_t> held;
  int64_t loaded_at = 0, longest_wait = 0;
  int turns[2] = {};
  for (int64_t now = 1; now < 2000; ++now) {
    // As the pool does: turns that have waited start before the next plan.
    if (loading != nullptr && now >= loaded_at) {
      loading->model.loaded = true;
      loading->model.loaded_ns = now;
      loading = nullptr;
    }
    for (size_t i = 0; i < 2; ++i) {
      Played& one = played[i];
      std::erase_if(one.ends, [now](int64_t end) { return end <= now; });
      if (one.waiting.size() < 8) one.waiting.push_back(now);
      if (one.model.loaded && held != i) {
        for (const int64_t arrived : one.waiting) {
          longest_wait = std::max(longest_wait, now - arrived);
          one.ends.push_back(now + 20);
          ++turns[i];
        }
        one.waiting.clear();
      }
      one.model.running = std::ssize(one.ends);
      one.model.waits_ns = one.waiting.empty() ? std::nullopt : std::optional(one.waiting.front());
      one.model.used_ns = now;
    }
    if (loading != nullptr) continue;
    const SwapModel models[] = {played[0].model, played[1].model};
    const SwapPlan plan = PlanSwap(models, kOne, now);
    held = plan.held;
    if (plan.unload) {
      EXPECT_EQ(played[*plan.unload].model.running, 0);
      played[*plan.unload].model.loaded = false;
    }
    if (plan.load) loading = &played[*plan.load], loaded_at = now + 3;
  }
  EXPECT_GT(turns[0], 100);
  EXPECT_GT(turns[1], 100);
  EXPECT_LT(longest_wait, 100);
}

}  // namespace
}  // namespace ringside
