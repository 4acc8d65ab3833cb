// Groups of a step's segments with a shared prefix (AttentionSegment::prefix). A backend reads the keys and values of a
// group's prefix once for all rows, then those of each row after it, and merges the two parts of the softmax (Hydragen,
// Juravsky et al. 2024; cascade attention, FlashInfer, Ye et al. 2025).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"

namespace ringside {

struct PrefixGroup {
  const void* slab;  // AttentionSegment::prefix
  int64_t end, pinned;
  std::vector<size_t> segments;  // at least two, ascending
};

/// The groups of at least two segments, in the order of their first ones. None if the layer has a window, or if rows do
/// not see all keys before them.
std::vector<PrefixGroup> PrefixGroupsOf(const AttentionArgs& args);

}  // namespace ringside
