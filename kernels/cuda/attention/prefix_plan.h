// The shared prefixes of an attention operation (AttentionSegment::prefix), as their kernels consume them. The rows'
// own tiles in the AttentionPlan start after the prefix. Plain data; memory as in AttentionPlan.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention/attention_plan.h"

namespace ringside::cuda {

struct Launcher;

constexpr int kPrefixQueries = 128;  // queries per tile: 16 for each of 8 warps

struct PrefixPlan {
  // Up to tile_rows rows each, which see all its keys: `row` is the place of the first one in `rows`, `pinned_tiles`
  // and `ring_tiles` are the prefix. [count]
  const StagedTile* tiles = nullptr;
  const int32_t* rows = nullptr;   // [count, tile_rows]: rows of the step
  const int32_t* slots = nullptr;  // [T]: place of a row of the step in `rows`; -1: it has no prefix
  float* partial = nullptr;  // per block [query][d] sums, then [query][2] running maxima and sums of probabilities
  int32_t count = 0;
  int32_t splits = 1;     // of a prefix's keys
  int32_t tile_rows = 0;  // a multiple of 8: every warp has whole rows

  friend bool operator==(const PrefixPlan&, const PrefixPlan&) = default;
};

/// Floats of the partial results of all tiles of few rows, and of all prefixes.
inline int64_t PartialFloats(const AttentionPlan& plan) {
  const int64_t blocks = int64_t{plan.tile_count} * (plan.heads / plan.tile_heads) * plan.splits;
  return blocks * 16 * (plan.head_dim + 2);
}
inline int64_t PartialFloats(const AttentionPlan& plan, const PrefixPlan& prefixes) {
  const int64_t blocks = int64_t{prefixes.count} * (plan.heads / plan.tile_heads) * prefixes.splits;
  return blocks * kPrefixQueries * (plan.head_dim + 2);
}

/// Attends to the prefixes. REQUIRES: HasTiledAttention; a plan without traits.
void LaunchPrefixAttention(const Launcher& on, const AttentionPlan& plan, const PrefixPlan& prefixes);
/// Replaces the results of rows with a prefix, after LaunchTiledAttention. REQUIRES: AttentionPlan::apart and at least
/// two splits, so that the partial results of the rows' own keys are in memory.
void LaunchMergePrefixes(const Launcher& on, const AttentionPlan& plan, const PrefixPlan& prefixes);

}  // namespace ringside::cuda
