// What each step computes, as a pure function: every decode row first, then prefill chunks in turn. Nothing here knows
// of caches, models or threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ringside {

struct SchedulerLimits {
  int64_t step_tokens = 256;  // rows of a step that only prefills
  int64_t mixed_tokens = 64;  // prefill rows of a step that also decodes: bounds what a prefill adds to others' latency
  int64_t prefill_chunk = 128;  // rows of one sequence in a step
};

/// For each running turn the tokens left to compute before its next sample (1 = it decodes), how many of them to take
/// this step (0 = none). Turns that decode always get their row. What is left of the budget goes to prefills in equal
/// parts, beginning with turn number `first` (rotate it from step to step), and nothing is left unused while a prefill
/// could take it.
std::vector<int64_t> PlanStep(std::span<const int64_t> remaining, const SchedulerLimits& limits, size_t first);

}  // namespace ringside
