// Copies between a cache and its branches (KvCache::BranchOff), which share the history and differ in the few rows that
// came after it. Whole tiles are copied on the device. Each returns the bytes that it copied. Engine thread only.
#pragma once

#include <cstdint>

#include "cache/kv_cache.h"

namespace ringside {

class SlabMemory;

/// Makes `cache` a branch of the first `tokens` tokens of `history` and gives it the rows that come before the next one
/// in its tile: fewer than 16.
int64_t BranchOff(SlabMemory& memory, KvCache* cache, const KvCache& history, int64_t tokens);
/// Makes a branch hold what another of the same history holds, where both have the same rows before `position`.
int64_t CopyBranch(SlabMemory& memory, KvCache* to, const KvCache& from, int64_t position);
/// Appends to a branch the rows that another of the same history has before position `end`, where both have the same
/// rows before the first branch's end.
int64_t ExtendBranch(SlabMemory& memory, KvCache* to, const KvCache& from, int64_t end);
/// Appends to `history` the rows of its branch before position `end`. It has not been appended to since the branch was
/// made.
int64_t JoinBranch(SlabMemory& memory, KvCache* history, const KvCache& branch, int64_t end);

}  // namespace ringside
