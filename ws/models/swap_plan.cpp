#include "ws/models/swap_plan.h"

namespace ringside {
namespace {

/// The model that is not loaded and has the oldest waiting turn.
std::optional<size_t> NextToLoad(std::span<const SwapModel> models) {
  std::optional<size_t> next;
  for (size_t i = 0; i < models.size(); ++i) {
    if (models[i].loaded || !models[i].waits_ns) continue;
    if (!next || *models[i].waits_ns < *models[*next].waits_ns) next = i;
  }
  return next;
}

bool Fits(std::span<const SwapModel> models, const SwapLimits& limits, const SwapModel& next) {
  int64_t count = 1, bytes = next.bytes;
  for (const SwapModel& model : models) {
    if (!model.loaded) continue;
    ++count;
    bytes += model.bytes;
  }
  return count <= limits.models && bytes <= limits.bytes;
}

std::optional<size_t> LeastRecentlyUsedIdle(std::span<const SwapModel> models) {
  std::optional<size_t> victim;
  for (size_t i = 0; i < models.size(); ++i) {
    if (!models[i].loaded || models[i].running > 0) continue;
    if (!victim || models[i].used_ns < models[*victim].used_ns) victim = i;
  }
  return victim;
}

std::optional<size_t> LongestLoaded(std::span<const SwapModel> models) {
  std::optional<size_t> longest;
  for (size_t i = 0; i < models.size(); ++i) {
    if (models[i].loaded && (!longest || models[i].loaded_ns < models[*longest].loaded_ns)) longest = i;
  }
  return longest;
}

}  // namespace

SwapPlan PlanSwap(std::span<const SwapModel> models, const SwapLimits& limits, int64_t now_ns) {
  SwapPlan plan;
  const std::optional<size_t> next = NextToLoad(models);
  if (!next) return plan;
  if (Fits(models, limits, models[*next])) {
    plan.load = next;
    return plan;
  }
  plan.unload = LeastRecentlyUsedIdle(models);
  if (plan.unload) return plan;
  const std::optional<size_t> longest = LongestLoaded(models);
  if (!longest) return plan;
  const int64_t slice_end_ns = models[*longest].loaded_ns + limits.slice_ns;
  if (now_ns >= slice_end_ns) {
    plan.held = longest;
  } else {
    plan.again_ns = slice_end_ns;
  }
  return plan;
}

}  // namespace ringside
